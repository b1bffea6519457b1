#include "phalanx/comm/reduce.h"

#include <algorithm>
#include <array>
#include <type_traits>

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

template <typename T, typename Combine>
void reduce_all(std::span<const std::byte* const> sources, std::span<std::byte* const> destinations,
                std::int64_t begin, std::int64_t bytes) {
  using Wide = typename Stored<T>::Wide;
  const Combine combine;
  std::array<Wide, kBlock> values;
  std::array<Wide, kBlock> more;
  const std::int64_t count = bytes / static_cast<std::int64_t>(sizeof(T));
  for (std::int64_t done = 0; done < count; done += kBlock) {
    const std::int64_t length = std::min(kBlock, count - done);
    const std::int64_t offset = begin + done * static_cast<std::int64_t>(sizeof(T));
    const auto block_of = [offset](const std::byte* source) {
      return reinterpret_cast<const T*>(source + offset);
    };
    Stored<T>::widen(block_of(sources[0]), values.data(), length);
    for (const std::byte* source : sources.subspan(1)) {
      const Wide* x = more.data();
      if constexpr (std::is_same_v<T, Wide>) {
        x = block_of(source);
      } else {
        Stored<T>::widen(block_of(source), more.data(), length);
      }
      for (std::int64_t i = 0; i < length; ++i) values[i] = combine(values[i], x[i]);
    }
    for (std::byte* destination : destinations) {
      Stored<T>::narrow(values.data(), reinterpret_cast<T*>(destination + offset), length);
    }
  }
}

template <typename T>
void reduce_as(Reduction reduction, std::span<const std::byte* const> sources,
               std::span<std::byte* const> destinations, std::int64_t begin, std::int64_t bytes) {
  switch (reduction) {
    case Reduction::kSum:
      return reduce_all<T, Sum>(sources, destinations, begin, bytes);
    case Reduction::kMax:
      return reduce_all<T, Max>(sources, destinations, begin, bytes);
    case Reduction::kMin:
      return reduce_all<T, Min>(sources, destinations, begin, bytes);
  }
}

}  // namespace

void reduce(DType dtype, Reduction reduction, std::span<const std::byte* const> sources,
            std::span<std::byte* const> destinations, std::int64_t begin, std::int64_t bytes) {
  // The thread may be one of any rank.
  const cpu::FlushToZero mode;
  switch (dtype) {
    case DType::kF64:
      return reduce_as<double>(reduction, sources, destinations, begin, bytes);
    case DType::kF32:
      return reduce_as<float>(reduction, sources, destinations, begin, bytes);
    case DType::kBF16:
      return reduce_as<bfloat16>(reduction, sources, destinations, begin, bytes);
    case DType::kF16:
      return reduce_as<float16>(reduction, sources, destinations, begin, bytes);
    case DType::kI64:
      return reduce_as<std::int64_t>(reduction, sources, destinations, begin, bytes);
    case DType::kI32:
      return reduce_as<std::int32_t>(reduction, sources, destinations, begin, bytes);
    case DType::kU8:
      return reduce_as<std::uint8_t>(reduction, sources, destinations, begin, bytes);
  }
}

void reduce_by_team(int threads, DType dtype, Reduction reduction,
                    std::span<const std::byte* const> sources,
                    std::span<std::byte* const> destinations, std::int64_t bytes) {
  // A multiple of every element size.
  constexpr std::int64_t kPieceBytes = 64 << 10;
  const std::int64_t pieces = (bytes + kPieceBytes - 1) / kPieceBytes;
  if (threads == 1 || pieces == 1) {
    reduce(dtype, reduction, sources, destinations, 0, bytes);
    return;
  }
#pragma omp parallel for num_threads(threads)
  for (std::int64_t piece = 0; piece < pieces; ++piece) {
    const std::int64_t begin = piece * kPieceBytes;
    reduce(dtype, reduction, sources, destinations, begin, std::min(kPieceBytes, bytes - begin));
  }
}

}  // namespace phalanx
