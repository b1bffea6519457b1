// clang-format off
#include "phalanx/ops/cpu/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "phalanx/ops/cpu/line_sums.cc"
#include "hwy/foreach_target.h"
// clang-format on

#include "phalanx/ops/cpu/line_sums.h"

#include <algorithm>

#include "phalanx/base/numeric.h"
#include "phalanx/ops/cpu/operands.h"
#include "phalanx/ops/cpu/parallel.h"
#include "phalanx/ops/cpu/storage-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phalanx::cpu::HWY_NAMESPACE {

// Adds elements in order.
void add_up(const Lines& from, std::int64_t lines, std::int64_t depth, float* sums) {
  with_storage(from.dtype, [&](auto type) HWY_ATTR {
    using T = decltype(type);
    const auto* data = reinterpret_cast<const T*>(from.data);
    const std::int64_t step = lane_count();
    std::int64_t line = 0;
    for (; line + 4 * step <= lines; line += 4 * step) {
      auto sum0 = hn::Zero(FloatTag());
      auto sum1 = sum0, sum2 = sum0, sum3 = sum0;
      for (std::int64_t i = 0; i < depth; ++i) {
        const T* row = data + i * from.stride + line;
        sum0 = hn::Add(sum0, load(row));
        sum1 = hn::Add(sum1, load(row + step));
        sum2 = hn::Add(sum2, load(row + 2 * step));
        sum3 = hn::Add(sum3, load(row + 3 * step));
      }
      store(sum0, sums + line);
      store(sum1, sums + line + step);
      store(sum2, sums + line + 2 * step);
      store(sum3, sums + line + 3 * step);
    }
    for_vectors(line, lines, [&](std::int64_t at, auto lanes) HWY_ATTR {
      auto sum = hn::Zero(FloatTag());
      for (std::int64_t i = 0; i < depth; ++i) {
        sum = hn::Add(sum, lanes.load(data + i * from.stride + at));
      }
      lanes.store(sum, sums + at);
    });
  });
}

// Adds blocks in order.
void combine(const LineSums& sums, std::int64_t begin, std::int64_t end, std::int64_t blocks,
             const float* partial) {
  for_vectors(begin, end, [&](std::int64_t i, auto lanes) HWY_ATTR {
    auto sum = lanes.load(partial + i);
    for (std::int64_t block = 1; block < blocks; ++block) {
      sum = hn::Add(sum, lanes.load(partial + block * sums.lines + i));
    }
    if (sums.accumulate) sum = hn::Add(lanes.load(sums.to + i), sum);
    lanes.store(sum, sums.to + i);
  });
}

}  // namespace phalanx::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace phalanx::cpu {

HWY_EXPORT(add_up);
HWY_EXPORT(combine);

std::int64_t line_sums_bytes(const LineSums& sums, std::int64_t depth_block) {
  return ceil_div(sums.depth, depth_block) * sums.lines * size_of(DType::kF32);
}

void add_up_block(const Lines& from, std::int64_t lines, std::int64_t depth, float* partial) {
  HWY_DYNAMIC_DISPATCH(add_up)(from, lines, depth, partial);
}

void combine_line_sums(int threads, const LineSums& sums, std::int64_t depth_block,
                       const std::byte* partial) {
  if (sums.depth == 0) {
    if (!sums.accumulate) std::fill_n(sums.to, sums.lines, 0.0F);
    return;
  }
  const Blocks lines{sums.lines, kTaskElements};
  parallel_for(threads, lines.count(), [&](std::int64_t task) {
    HWY_DYNAMIC_DISPATCH(combine)
    (sums, lines.begin(task), lines.end(task), ceil_div(sums.depth, depth_block),
     reinterpret_cast<const float*>(partial));
  });
}

void add_up_lines(int threads, const LineSums& sums, std::int64_t depth_block, std::byte* partial) {
  constexpr std::int64_t kLines = 256;
  const Blocks lines{sums.lines, kLines};
  const Blocks depths{sums.depth, depth_block};
  auto* sums_of_blocks = reinterpret_cast<float*>(partial);
  parallel_for(threads, lines.count() * depths.count(), [&](std::int64_t task) {
    const std::int64_t line = task % lines.count();
    const std::int64_t depth = task / lines.count();
    add_up_block(sums.from.from(lines.begin(line), depths.begin(depth)),
                 lines.end(line) - lines.begin(line), depths.end(depth) - depths.begin(depth),
                 sums_of_blocks + depth * sums.lines + lines.begin(line));
  });
  combine_line_sums(threads, sums, depth_block, partial);
}

}  // namespace phalanx::cpu
#endif  // HWY_ONCE
