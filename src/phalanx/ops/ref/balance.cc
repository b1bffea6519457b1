#include "phalanx/ops/balance.h"

#include "phalanx/ops/ref/access.h"
#include "phalanx/ops/ref/execute.h"
#include "phalanx/ops/ref/router_scores.h"

namespace phalanx::ref {
namespace {

// The row of the counts of a sequence.
std::int64_t counts_row(const Integers& counts, std::int64_t sequence) {
  return counts.shape[0] == 1 ? 0 : sequence;
}

}  // namespace

void execute(RefDevice& /*device*/, const ops::BalanceStatistics& op, const Tensor& /*scratch*/) {
  const Array logits = read(op.logits);
  const std::int64_t sequences = op.counts.shape[0];
  Integers counts(op.counts.shape);
  Array sums(op.score_sums.shape);
  double z_loss = op.z_loss ? read_scalar(op.z_loss) : 0.0;
  for (std::int64_t r = 0; r < logits.shape[0]; ++r) {
    const std::vector<double> row(logits.row(r), logits.row(r) + logits.shape[1]);
    const std::vector<double> scores = balance_scores(op.score, row);
    for (std::int64_t e = 0; e < logits.shape[1]; ++e) {
      sums(r % sequences, e) += scores[static_cast<std::size_t>(e)];
    }
    // In the order of the logits, where scores may be equal.
    for (const std::int64_t e : places_of_largest(row, op.chosen)) ++counts(r % sequences, e);
    z_loss += op.z_factor * log_sum_exp(row) * log_sum_exp(row);
  }
  write_integers(op.counts, counts);
  write(op.score_sums, sums);
  if (op.z_loss) write_scalar(op.z_loss, z_loss);
}

void execute(RefDevice& /*device*/, const ops::BalanceLoss& op, const Tensor& /*scratch*/) {
  const Integers counts = read_integers(op.counts);
  const Array sums = read(op.score_sums);
  double loss = read_scalar(op.loss);
  for (std::int64_t q = 0; q < sums.shape[0]; ++q) {
    for (std::int64_t e = 0; e < sums.shape[1]; ++e) {
      loss += op.factor * static_cast<double>(counts(counts_row(counts, q), e)) * sums(q, e);
    }
  }
  write_scalar(op.loss, loss);
}

void execute(RefDevice& /*device*/, const ops::BalanceGradient& op, const Tensor& /*scratch*/) {
  const Integers counts = read_integers(op.counts);
  const double factor = op.factor * read_scalar(op.scale);
  Array dscores = op.accumulate ? read(op.dscores) : Array(op.dscores.shape);
  for (std::int64_t q = 0; q < dscores.shape[0]; ++q) {
    for (std::int64_t e = 0; e < dscores.shape[1]; ++e) {
      dscores(q, e) += factor * static_cast<double>(counts(counts_row(counts, q), e));
    }
  }
  write(op.dscores, dscores);
}

void execute(RefDevice& /*device*/, const ops::ExpertCounts& op, const Tensor& /*scratch*/) {
  Integers counts = op.accumulate ? read_integers(op.counts) : Integers(op.counts.shape);
  for (const std::int64_t expert : read_integers(op.experts).values) {
    if (expert >= 0) ++counts(expert);
  }
  write_integers(op.counts, counts);
}

void execute(RefDevice& /*device*/, const ops::ExpertBiasUpdate& op, const Tensor& /*scratch*/) {
  const Integers counts = read_integers(op.counts);
  Array bias = read(op.bias);
  const std::int64_t experts = bias.shape[0];
  const std::int64_t total =
      std::accumulate(counts.values.begin(), counts.values.end(), std::int64_t{0});
  for (std::int64_t e = 0; e < experts; ++e) {
    const std::int64_t missing = total - experts * counts(e);
    if (missing != 0) bias(e) += missing > 0 ? op.rate : -op.rate;
  }
  write(op.bias, bias);
}

}  // namespace phalanx::ref
