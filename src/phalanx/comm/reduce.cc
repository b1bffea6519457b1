#include "phalanx/comm/reduce.h"

#include <algorithm>
#include <array>
#include <type_traits>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/base/team.h"
#include "phalanx/ops/cpu/convert.h"
#include "phalanx/ops/cpu/flush_to_zero.h"

namespace phalanx {
namespace {

// Sums of a block stay in the first-level cache, and loops of known length over a local array are
// vectorised without run-time checks for overlap.
constexpr std::int64_t kBlock = 1024;  // elements

// The type in which elements are combined, and conversions of blocks to and from it.
template <typename T>
struct Stored {
  using Wide = T;
  static void widen(const T* from, T* to, std::int64_t count) { std::copy_n(from, count, to); }
  static void narrow(const T* from, T* to, std::int64_t count) { std::copy_n(from, count, to); }
};
template <typename T>
struct Stored16 {
  using Wide = float;
  static void widen(const T* from, float* to, std::int64_t count) {
    cpu::widen(kDTypeOf<T>, from, to, count);
  }
  static void narrow(const float* from, T* to, std::int64_t count) {
    cpu::narrow(kDTypeOf<T>, from, to, count);
  }
};
template <>
struct Stored<bfloat16> : Stored16<bfloat16> {};
template <>
struct Stored<float16> : Stored16<float16> {};

// Integers as unsigned, so that they may wrap around.
struct Sum {
  template <typename T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      using Unsigned = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
    } else {
      return a + b;
    }
  }
};
template <typename T>
bool is_nan(T value) {
  if constexpr (std::is_floating_point_v<T>) {
    return value != value;
  } else {
    return false;
  }
}
struct Max {
  template <typename T>
  T operator()(T a, T b) const {
    return ((b > a) | is_nan(b)) ? b : a;
  }
};
struct Min {
  template <typename T>
  T operator()(T a, T b) const {
    return ((b < a) | is_nan(b)) ? b : a;
  }
};

// values = values combined with x; they lie apart.
template <typename Combine, typename Wide>
void combine_into(Wide* __restrict values, const Wide* __restrict x, std::int64_t length) {
  const Combine combine;
  for (std::int64_t i = 0; i < length; ++i) values[i] = combine(values[i], x[i]);
}

// The sums of one level of the tree, from the second on, that are being added.
template <typename Wide>
struct Level {
  std::array<Wide, kBlock> sum;
  int terms = 0;
};

// A block of the level below is complete: its sum becomes a term, maybe the last one of its block.
template <typename Combine, typename Wide>
void add_block(std::span<Level<Wide>> levels, const Wide* sum, int block, std::int64_t length) {
  for (Level<Wide>& level : levels) {
    if (level.terms == 0) {
      std::copy_n(sum, length, level.sum.data());
    } else {
      combine_into<Combine>(level.sum.data(), sum, length);
    }
    if (++level.terms < block || &level == &levels.back()) return;
    level.terms = 0;
    sum = level.sum.data();
  }
}

// All have come: blocks end with the terms that they have. `sum`: of the first level's last block;
// null if there is none.
template <typename Combine, typename Wide>
const Wide* total(std::span<Level<Wide>> levels, const Wide* sum, std::int64_t length) {
  for (Level<Wide>& level : levels) {
    if (level.terms == 0) continue;
    if (sum != nullptr) combine_into<Combine>(level.sum.data(), sum, length);
    level.terms = 0;
    sum = level.sum.data();
  }
  return sum;
}

template <typename From, typename To, typename Combine>
void reduce_all(int block, std::span<const std::byte* const> sources,
                std::span<std::byte* const> destinations, std::int64_t first, std::int64_t count) {
  using Wide = typename Stored<From>::Wide;
  static_assert(std::is_same_v<Wide, typename Stored<To>::Wide>);
  std::array<Wide, kBlock> values;
  std::array<Wide, kBlock> more;
  const SumTree tree(static_cast<int>(sources.size()), block);
  std::vector<Level<Wide>> levels(static_cast<std::size_t>(std::max(tree.levels() - 1, 0)));
  for (std::int64_t done = 0; done < count; done += kBlock) {
    const std::int64_t length = std::min(kBlock, count - done);
    int terms = 0;  // of this block of sources
    for (const std::byte* const source : sources) {
      const From* const block_begin = reinterpret_cast<const From*>(source) + first + done;
      if (terms == 0) {
        Stored<From>::widen(block_begin, values.data(), length);
      } else if constexpr (std::is_same_v<From, Wide>) {
        combine_into<Combine>(values.data(), block_begin, length);
      } else {
        Stored<From>::widen(block_begin, more.data(), length);
        combine_into<Combine>(values.data(), more.data(), length);
      }
      if (++terms < block || levels.empty()) continue;
      add_block<Combine>(std::span(levels), values.data(), block, length);
      terms = 0;
    }
    const Wide* const sum =
        total<Combine>(std::span(levels), terms > 0 ? values.data() : nullptr, length);
    for (std::byte* const destination : destinations) {
      Stored<To>::narrow(sum, reinterpret_cast<To*>(destination) + first + done, length);
    }
  }
}

template <typename From, typename To>
void reduce_as(const Terms& terms, std::span<const std::byte* const> sources,
               std::span<std::byte* const> destinations, std::int64_t first, std::int64_t count) {
  switch (terms.reduction) {
    case Reduction::kSum:
      return reduce_all<From, To, Sum>(terms.block, sources, destinations, first, count);
    case Reduction::kMax:
      return reduce_all<From, To, Max>(terms.block, sources, destinations, first, count);
    case Reduction::kMin:
      return reduce_all<From, To, Min>(terms.block, sources, destinations, first, count);
  }
}

// Data of 16 bits, or sums of it in fp32, on either side.
template <typename T>
void reduce_narrow(const Terms& terms, std::span<const std::byte* const> sources,
                   std::span<std::byte* const> destinations, std::int64_t first,
                   std::int64_t count) {
  if (terms.from != kDTypeOf<T>) {
    return reduce_as<float, T>(terms, sources, destinations, first, count);
  }
  if (terms.to != kDTypeOf<T>) {
    return reduce_as<T, float>(terms, sources, destinations, first, count);
  }
  return reduce_as<T, T>(terms, sources, destinations, first, count);
}

}  // namespace

DType partial_dtype(DType dtype) {
  return dtype == DType::kBF16 || dtype == DType::kF16 ? DType::kF32 : dtype;
}

void reduce(const Terms& terms, std::span<const std::byte* const> sources,
            std::span<std::byte* const> destinations, std::int64_t first, std::int64_t count) {
  PHALANX_CHECK(terms.from == terms.to || partial_dtype(terms.from) == partial_dtype(terms.to),
                "a reduction of {} to {}", name_of(terms.from), name_of(terms.to));
  // The thread may be one of any rank.
  const cpu::FlushToZero mode;
  // The narrower type, if they differ.
  const DType data = terms.from == partial_dtype(terms.from) ? terms.to : terms.from;
  switch (data) {
    case DType::kF64:
      return reduce_as<double, double>(terms, sources, destinations, first, count);
    case DType::kF32:
      return reduce_as<float, float>(terms, sources, destinations, first, count);
    case DType::kBF16:
      return reduce_narrow<bfloat16>(terms, sources, destinations, first, count);
    case DType::kF16:
      return reduce_narrow<float16>(terms, sources, destinations, first, count);
    case DType::kI64:
      return reduce_as<std::int64_t, std::int64_t>(terms, sources, destinations, first, count);
    case DType::kI32:
      return reduce_as<std::int32_t, std::int32_t>(terms, sources, destinations, first, count);
    case DType::kU8:
      return reduce_as<std::uint8_t, std::uint8_t>(terms, sources, destinations, first, count);
  }
}

void reduce_by_team(int threads, const Terms& terms, std::span<const std::byte* const> sources,
                    std::byte* destination, std::int64_t count) {
  constexpr std::int64_t kPieceBytes = 64 << 10;
  const std::int64_t piece_count = kPieceBytes / size_of(terms.from);
  const std::int64_t pieces = (count + piece_count - 1) / piece_count;
  const std::span destinations(&destination, 1);
  if (threads == 1 || pieces == 1) {
    reduce(terms, sources, destinations, 0, count);
    return;
  }
  Team::mine().run(threads, pieces, Dealing::kNeighbours, [&](Team::Member& member) {
    while (member.next()) {
      const std::int64_t first = member.part() * piece_count;
      reduce(terms, sources, destinations, first, std::min(piece_count, count - first));
    }
  });
}

}  // namespace phalanx
