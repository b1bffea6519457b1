// Sums of squares in double, and the few numbers that follow from them.

// clang-format off
#include "phalanx/ops/cpu/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "phalanx/ops/cpu/reduce.cc"
#include "hwy/foreach_target.h"
// clang-format on

#include <algorithm>
#include <cmath>

#include "phalanx/ops/cpu/execute.h"
#include "phalanx/ops/cpu/operands.h"
#include "phalanx/ops/cpu/parallel.h"
#include "phalanx/ops/cpu/storage-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phalanx::cpu::HWY_NAMESPACE {

HWY_INLINE double block_square_sum(const float* x, std::int64_t begin, std::int64_t end) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> narrow;
  const auto step = static_cast<std::int64_t>(hn::Lanes(d));
  const auto at = [&](std::int64_t i)
                      HWY_ATTR { return hn::PromoteTo(d, hn::LoadU(narrow, x + i)); };
  auto sum0 = hn::Zero(d);
  auto sum1 = sum0;
  auto sum2 = sum0;
  auto sum3 = sum0;
  std::int64_t i = begin;
  for (; i + 4 * step <= end; i += 4 * step) {
    const auto x0 = at(i);
    const auto x1 = at(i + step);
    const auto x2 = at(i + 2 * step);
    const auto x3 = at(i + 3 * step);
    sum0 = hn::MulAdd(x0, x0, sum0);
    sum1 = hn::MulAdd(x1, x1, sum1);
    sum2 = hn::MulAdd(x2, x2, sum2);
    sum3 = hn::MulAdd(x3, x3, sum3);
  }
  const auto all = hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3));
  double sum = hn::GetLane(hn::SumOfLanes(d, all));
  for (; i < end; ++i) sum += static_cast<double>(x[i]) * x[i];
  return sum;
}

void square_sum(const CpuDevice& device, const ops::SquareSum& op, double* partial) {
  const float* x = dense<float>(op.x);
  const Blocks blocks = element_blocks(op.x.count());
  parallel_for(device.threads, blocks.count(), [&](std::int64_t block) HWY_ATTR {
    partial[block] = block_square_sum(x, blocks.begin(block), blocks.end(block));
  });
  double sum = 0.0;
  for (std::int64_t block = 0; block < blocks.count(); ++block) sum += partial[block];
  *dense<double>(op.sum) = sum;
}

}  // namespace phalanx::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace phalanx::cpu {

HWY_EXPORT(square_sum);

std::int64_t workspace_bytes_of(const CpuDevice& /*device*/, const ops::SquareSum& op) {
  return element_blocks(op.x.count()).count() * size_of(DType::kF64);
}

void execute(CpuDevice& device, const ops::SquareSum& op, const Tensor& scratch) {
  HWY_DYNAMIC_DISPATCH(square_sum)(device, op, reinterpret_cast<double*>(scratch.data()));
}

void execute(CpuDevice& /*device*/, const ops::GradientFactor& op, const Tensor& /*scratch*/) {
  double average = 1.0 / static_cast<double>(*dense<float>(op.loss_scale));
  if (op.tokens) {
    const double tokens = *dense<double>(op.tokens);
    average = tokens == 0.0 ? 0.0 : op.expected_tokens / tokens * average;
  }
  double squares = 0.0;
  for (const double sum : op.square_sums.span<double>()) squares += sum;
  const auto norm = std::sqrt(squares) * average;
  const double clipped = op.clip > 0.0 ? std::min(1.0, op.clip / (norm + 1e-6)) : 1.0;
  *dense<float>(op.norm) = static_cast<float>(norm);
  *dense<float>(op.factor) = static_cast<float>(average * clipped);
  // As it is reported: a norm beyond float is as bad as infinity.
  *dense<float>(op.skip) = std::isfinite(*dense<float>(op.norm)) ? 0.0F : 1.0F;
}

}  // namespace phalanx::cpu
#endif  // HWY_ONCE
