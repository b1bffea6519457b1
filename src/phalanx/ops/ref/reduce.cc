#include <algorithm>
#include <cmath>
#include <limits>

#include "phalanx/ops/ref/access.h"
#include "phalanx/ops/ref/execute.h"

namespace phalanx::ref {

namespace {

// results[group + i] = the sum of term(x) over the elements of the segment's i-th block.
template <typename Op, typename Term>
void sum_by_block(const Op& op, const Tensor& results, const Term& term) {
  for (const ops::Segment& segment : op.table.host) {
    const std::int64_t lead = segment.begin % ops::kSumBlock;
    Array sums({ops::sum_blocks(lead, segment.count)});
    std::int64_t place = lead;
    for (const double value : read(op.x.slice(0, segment.begin - op.first, segment.count)).values) {
      sums(place++ / ops::kSumBlock) += term(value);
    }
    write(results.slice(0, segment.group, sums.shape[0]), sums);
  }
}

}  // namespace

void execute(RefDevice& /*device*/, const ops::SquareSumSegments& op, const Tensor& /*scratch*/) {
  sum_by_block(op, op.sums, [](double value) { return value * value; });
}

void execute(RefDevice& /*device*/, const ops::ZeroCountSegments& op, const Tensor& /*scratch*/) {
  sum_by_block(op, op.counts, [](double value) { return value == 0.0 ? 1.0 : 0.0; });
}

void execute(RefDevice& /*device*/, const ops::TotalSegments& op, const Tensor& /*scratch*/) {
  for (const ops::Segment& segment : op.table.host) {
    double sum = 0.0;
    for (const double value : read(op.x.slice(0, segment.begin, segment.count)).values)
      sum += value;
    write_scalar(op.totals.slice(0, segment.group, 1), sum);
  }
}

void execute(RefDevice& /*device*/, const ops::Total& op, const Tensor& /*scratch*/) {
  double sum = 0.0;
  for (const double value : read(op.x).values) sum += value;
  write_scalar(op.sum, sum);
}

void execute(RefDevice& /*device*/, const ops::GradientFactor& op, const Tensor& /*scratch*/) {
  double loss_scale = read_scalar(op.loss_scale);
  if (op.checked) {
    for (const double loss : read(op.checked).values) {
      if (!std::isfinite(loss)) loss_scale = std::numeric_limits<double>::quiet_NaN();
    }
  }
  double average = 1.0 / loss_scale;
  if (op.tokens) {
    const double tokens = read_scalar(op.tokens);
    average = tokens == 0.0 ? 0.0 : read_scalar(op.expected_tokens) / tokens * average;
  }
  double squares = 0.0;
  for (const double value : read(op.square_sums).values) squares += value;
  const double norm = std::sqrt(squares) * average;
  const double clipped = op.clip > 0.0 ? std::min(1.0, op.clip / (norm + 1e-6)) : 1.0;
  write_scalar(op.norm, norm);
  write_scalar(op.factor, average * clipped);
  write_scalar(op.skip, std::isfinite(norm) ? 0.0 : 1.0);
}

}  // namespace phalanx::ref
