#include <algorithm>
#include <cmath>

#include "phalanx/ops/ref/access.h"
#include "phalanx/ops/ref/execute.h"

namespace phalanx::ref {

namespace {

// blocks[i] = the sum of term(x) over the elements of the i-th block.
template <typename Term>
void sum_by_block(const Tensor& blocks, const Tensor& x, std::int64_t lead, const Term& term) {
  Array sums(blocks.shape);
  std::int64_t place = lead;
  for (const double value : read(x).values) sums(place++ / ops::kSumBlock) += term(value);
  write(blocks, sums);
}

}  // namespace

void execute(RefDevice& /*device*/, const ops::SquareSum& op, const Tensor& /*scratch*/) {
  sum_by_block(op.sums, op.x, op.lead, [](double value) { return value * value; });
}

void execute(RefDevice& /*device*/, const ops::ZeroCount& op, const Tensor& /*scratch*/) {
  sum_by_block(op.counts, op.x, op.lead, [](double value) { return value == 0.0 ? 1.0 : 0.0; });
}

void execute(RefDevice& /*device*/, const ops::Total& op, const Tensor& /*scratch*/) {
  double sum = 0.0;
  for (const double value : read(op.x).values) sum += value;
  write_scalar(op.sum, sum);
}

void execute(RefDevice& /*device*/, const ops::GradientFactor& op, const Tensor& /*scratch*/) {
  double average = 1.0 / read_scalar(op.loss_scale);
  if (op.tokens) {
    const double tokens = read_scalar(op.tokens);
    average = tokens == 0.0 ? 0.0 : op.expected_tokens / tokens * average;
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
