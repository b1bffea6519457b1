// Fill, copy, addition and multiplication by a number at the speed of memory.

// clang-format off
#include "phalanx/ops/cpu/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "phalanx/ops/cpu/elementwise.cc"
#include "hwy/foreach_target.h"
// clang-format on

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>

#include "hwy/cache_control.h"
#include "phalanx/ops/cpu/copy_plan.h"
#include "phalanx/ops/cpu/execute.h"
#include "phalanx/ops/cpu/operands.h"
#include "phalanx/ops/cpu/parallel.h"
#include "phalanx/ops/cpu/scalar.h"
#include "phalanx/ops/cpu/storage-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phalanx::cpu::HWY_NAMESPACE {

// Larger tensors are written around the caches.
constexpr std::int64_t kStreamBytes = std::int64_t{16} << 20;
constexpr std::int64_t kStreamCopyBytes = 2 * kStreamBytes;       // a copy has two
constexpr std::int64_t kStreamRunBytes = std::int64_t{64} << 10;  // of shorter runs it is slower
constexpr std::int64_t kFillBlockBytes = std::int64_t{256} << 10;

// Writes the eight bytes of the pattern again and again.
void fill(const CpuDevice& device, std::byte* to, std::int64_t bytes, std::uint64_t pattern) {
  const hn::ScalableTag<std::uint64_t> d;
  const auto step = static_cast<std::int64_t>(hn::Lanes(d) * sizeof(std::uint64_t));
  const bool stream = bytes >= kStreamBytes &&
                      reinterpret_cast<std::uintptr_t>(to) % static_cast<std::uintptr_t>(step) == 0;
  const Blocks blocks{bytes, kFillBlockBytes};
  parallel_for(device.threads, blocks.count(), [&](std::int64_t block) HWY_ATTR {
    const auto value = hn::Set(d, pattern);
    std::int64_t i = blocks.begin(block);
    const std::int64_t end = blocks.end(block);
    if (stream) {
      for (; i + step <= end; i += step) {
        hn::Stream(value, d, reinterpret_cast<std::uint64_t*>(to + i));
      }
      hwy::FlushStream();
    } else {
      for (; i + step <= end; i += step) {
        hn::StoreU(value, d, reinterpret_cast<std::uint64_t*>(to + i));
      }
    }
    for (; i + 8 <= end; i += 8) std::memcpy(to + i, &pattern, 8);
    if (i < end) std::memcpy(to + i, &pattern, static_cast<std::size_t>(end - i));
  });
}

template <typename T>
inline constexpr bool kVector =
    std::is_same_v<T, float> || std::is_same_v<T, bfloat16> || std::is_same_v<T, float16>;

// Copies around the caches: lines that are written are not read first, which is a third of what
// memory moves. `to` is aligned to a vector where whole vectors begin.
void stream_bytes(const std::byte* from, std::byte* to, std::int64_t bytes) {
  constexpr int kUnroll = 4;
  constexpr std::int64_t kLine = 64, kAhead = 1024;
  const hn::ScalableTag<std::uint8_t> d;
  const auto step = static_cast<std::int64_t>(hn::Lanes(d));
  const auto past = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(to) % hn::Lanes(d));
  std::int64_t i = std::min((step - past) % step, bytes);
  std::memcpy(to, from, static_cast<std::size_t>(i));
  for (; i + kUnroll * step <= bytes; i += kUnroll * step) {
    for (std::int64_t at = 0; at < kUnroll * step; at += kLine) prefetch(from + i + at, kAhead);
    HWY_UNROLL(kUnroll)
    for (std::int64_t at = i; at < i + kUnroll * step; at += step) {
      const auto value = hn::LoadU(d, reinterpret_cast<const std::uint8_t*>(from + at));
      hn::Stream(value, d, reinterpret_cast<std::uint8_t*>(to + at));
    }
  }
  hwy::FlushStream();
  std::memcpy(to + i, from + i, static_cast<std::size_t>(bytes - i));
}

// Elements of one type.
template <typename T>
void copy_run(const std::byte* from, std::int64_t from_stride, std::byte* to,
              std::int64_t to_stride, std::int64_t count) {
  if (from_stride == 1 && to_stride == 1) {
    std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(T));
    return;
  }
  const T* source = reinterpret_cast<const T*>(from);
  T* destination = reinterpret_cast<T*>(to);
  for (std::int64_t i = 0; i < count; ++i) destination[i * to_stride] = source[i * from_stride];
}

template <typename From, typename To>
void convert_run(const std::byte* from, std::int64_t from_stride, std::byte* to,
                 std::int64_t to_stride, std::int64_t count) {
  const From* source = reinterpret_cast<const From*>(from);
  To* destination = reinterpret_cast<To*>(to);
  if constexpr (kVector<From> && kVector<To>) {
    if (from_stride == 1 && to_stride == 1) return convert(source, destination, count);
  }
  for (std::int64_t i = 0; i < count; ++i) {
    destination[i * to_stride] = narrow<To>(widen(source[i * from_stride]));
  }
}

template <typename From, typename To>
void add_run(const std::byte* from, std::byte* to, std::int64_t count) {
  const From* source = reinterpret_cast<const From*>(from);
  To* destination = reinterpret_cast<To*>(to);
  if constexpr (kVector<From> && kVector<To>) {
    for_vectors(0, count, [=](std::int64_t i, auto lanes) HWY_ATTR {
      lanes.store(hn::Add(lanes.load(destination + i), lanes.load(source + i)), destination + i);
    });
  } else if constexpr (std::is_integral_v<To>) {
    for (std::int64_t i = 0; i < count; ++i) {
      destination[i] = static_cast<To>(destination[i] + source[i]);
    }
  } else {
    for (std::int64_t i = 0; i < count; ++i) {
      destination[i] = narrow<To>(widen(destination[i]) + widen(source[i]));
    }
  }
}

// Calls body(T()) with the floating-point type of a tensor.
template <typename Body>
void with_floating(DType dtype, const Body& body) {
  if (dtype == DType::kF64) return body(double());
  with_storage(dtype, body);
}

using CopyRun = void (*)(const std::byte*, std::int64_t, std::byte*, std::int64_t, std::int64_t);
CopyRun copy_run_for(DType from, DType to) {
  if (from == to) {
    switch (size_of(from)) {
      case 1:
        return copy_run<std::uint8_t>;
      case 2:
        return copy_run<std::uint16_t>;
      case 4:
        return copy_run<std::uint32_t>;
      default:
        return copy_run<std::uint64_t>;
    }
  }
  CopyRun run = nullptr;
  with_floating(from, [&](auto source) {
    with_floating(
        to, [&](auto destination) { run = convert_run<decltype(source), decltype(destination)>; });
  });
  return run;
}

void copy(const CpuDevice& device, const ops::Copy& op) {
  const CopyPlan plan(op.destination, op.source);
  const CopyRun run = copy_run_for(op.source.dtype, op.destination.dtype);
  const std::int64_t from_size = size_of(op.source.dtype);
  const std::int64_t to_size = size_of(op.destination.dtype);
  const std::byte* from = op.source.data();
  std::byte* to = op.destination.data();
  // Long runs are cut, short ones are grouped.
  const Blocks pieces = element_blocks(plan.run.extent);
  const Blocks runs = row_blocks(plan.runs, plan.run.extent);
  const bool dense = plan.run.source_stride == 1 && plan.run.destination_stride == 1;
  const bool stream = kMaxLanes > 1 && dense && op.source.dtype == op.destination.dtype &&
                      op.destination.bytes() >= kStreamCopyBytes &&
                      plan.run.extent * to_size >= kStreamRunBytes;
  parallel_for(device.threads, runs.count() * pieces.count(), [&](std::int64_t task) {
    const std::int64_t begin = pieces.begin(task % pieces.count());
    const std::int64_t count = pieces.end(task % pieces.count()) - begin;
    const std::int64_t group = task / pieces.count();
    for (std::int64_t r = runs.begin(group); r < runs.end(group); ++r) {
      const auto at = plan.offsets(r);
      const std::byte* source = from + (at.source + begin * plan.run.source_stride) * from_size;
      std::byte* destination =
          to + (at.destination + begin * plan.run.destination_stride) * to_size;
      if (stream) {
        stream_bytes(source, destination, static_cast<std::size_t>(count * to_size));
      } else {
        run(source, plan.run.source_stride, destination, plan.run.destination_stride, count);
      }
    }
  });
}

template <typename From, typename To>
void accumulate_as(const CpuDevice& device, const ops::Accumulate& op) {
  const Blocks blocks = element_blocks(op.source.count());
  const std::byte* from = op.source.data();
  std::byte* to = op.destination.data();
  parallel_for(device.threads, blocks.count(), [&](std::int64_t block) {
    const std::int64_t begin = blocks.begin(block);
    add_run<From, To>(from + begin * static_cast<std::int64_t>(sizeof(From)),
                      to + begin * static_cast<std::int64_t>(sizeof(To)),
                      blocks.end(block) - begin);
  });
}

void accumulate(const CpuDevice& device, const ops::Accumulate& op) {
  const DType dtype = op.destination.dtype;
  if (is_floating(dtype) && is_floating(op.source.dtype)) {
    return with_floating(op.source.dtype, [&](auto from) {
      with_floating(dtype,
                    [&](auto to) { accumulate_as<decltype(from), decltype(to)>(device, op); });
    });
  }
  PHALANX_CHECK(dtype == op.source.dtype, "accumulate: {} to {}", name_of(op.source.dtype),
                name_of(dtype));
  if (dtype == DType::kI64) return accumulate_as<std::int64_t, std::int64_t>(device, op);
  if (dtype == DType::kI32) return accumulate_as<std::int32_t, std::int32_t>(device, op);
  accumulate_as<std::uint8_t, std::uint8_t>(device, op);
}

void scale(const CpuDevice& device, const ops::Scale& op) {
  const Blocks blocks = element_blocks(op.x.count());
  with_floating(op.x.dtype, [&](auto type) {
    using T = decltype(type);
    const T* x = reinterpret_cast<const T*>(op.x.data());
    T* y = reinterpret_cast<T*>(op.y.data());
    parallel_for(device.threads, blocks.count(), [&](std::int64_t block) HWY_ATTR {
      if constexpr (kVector<T>) {
        const auto factor = hn::Set(FloatTag(), static_cast<float>(op.factor));
        for_vectors(blocks.begin(block), blocks.end(block),
                    [=](std::int64_t i, auto lanes)
                        HWY_ATTR { lanes.store(hn::Mul(factor, lanes.load(x + i)), y + i); });
      } else {
        for (std::int64_t i = blocks.begin(block); i < blocks.end(block); ++i) {
          y[i] = narrow<T>(op.factor * widen(x[i]));
        }
      }
    });
  });
}

}  // namespace phalanx::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace phalanx::cpu {

HWY_EXPORT(fill);
PHALANX_KERNEL(Copy, copy)
PHALANX_KERNEL(Accumulate, accumulate)
PHALANX_KERNEL(Scale, scale)

namespace {

// The bytes of a value, repeated to eight.
std::uint64_t pattern_of(DType dtype, double value) {
  constexpr std::uint64_t kEvery2 = 0x0001000100010001U;
  constexpr std::uint64_t kEvery4 = 0x0000000100000001U;
  switch (dtype) {
    case DType::kF64:
      return std::bit_cast<std::uint64_t>(value);
    case DType::kF32:
      return kEvery4 * std::bit_cast<std::uint32_t>(static_cast<float>(value));
    case DType::kBF16:
      return kEvery2 * narrow<bfloat16>(value).bits;
    case DType::kF16:
      return kEvery2 * narrow<float16>(value).bits;
    case DType::kI64:
      return static_cast<std::uint64_t>(static_cast<std::int64_t>(value));
    case DType::kI32:
      return kEvery4 * static_cast<std::uint32_t>(static_cast<std::int32_t>(value));
    case DType::kU8:
      return std::uint64_t{0x0101010101010101} * static_cast<std::uint8_t>(value);
  }
  return 0;
}

}  // namespace

void execute(CpuDevice& device, const ops::Fill& op, const Tensor& /*scratch*/) {
  HWY_DYNAMIC_DISPATCH(fill)
  (device, op.x.data(), op.x.bytes(), pattern_of(op.x.dtype, op.value));
}

}  // namespace phalanx::cpu
#endif  // HWY_ONCE
