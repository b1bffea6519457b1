// Sums over the tokens of a sequence are of blocks of its rows, which are added in their order.

#include "phalanx/ops/balance.h"

#include <numeric>

#include "phalanx/ops/cpu/execute.h"
#include "phalanx/ops/cpu/operands.h"
#include "phalanx/ops/cpu/parallel.h"
#include "phalanx/ops/cpu/router_scores.h"

namespace phalanx::cpu {
namespace {

// The rows of a sequence are `sequences` apart. All sequences are cut as the first, the longest.
struct SequenceBlocks {
  explicit SequenceBlocks(const ops::BalanceStatistics& op)
      : rows(op.logits.shape[0]),
        sequences(op.counts.shape[0]),
        experts(op.logits.shape[1]),
        blocks(partial_sum_blocks(ceil_div(rows, sequences))) {}

  std::int64_t tasks() const { return sequences * blocks.count(); }
  // Of a task: the sums and the counts of experts, and the z-loss.
  std::int64_t numbers() const { return 2 * experts + 1; }

  std::int64_t rows, sequences, experts;
  Blocks blocks;
};

void add_row(const ops::BalanceStatistics& op, const float* z, std::int64_t experts,
             double* numbers) {
  ExpertNumbers s;
  double* counts = numbers + experts;
  double sum = 1.0;
  double log_sum = 0.0;
  if (ops::is_softmax(op.score) || op.z_loss) log_sum = softmax(z, experts, s.data());
  if (!ops::is_softmax(op.score)) sum = scores_of(op.score, z, experts, s.data());
  for (std::int64_t e = 0; e < experts; ++e) numbers[e] += s[static_cast<std::size_t>(e)] / sum;
  Largest best(op.chosen);
  for (std::int64_t e = 0; e < experts; ++e) best.add(z[e], e);
  for (std::int64_t j = 0; j < op.chosen; ++j) counts[best.number(j)] += 1.0;
  numbers[2 * experts] += log_sum * log_sum;
}

}  // namespace

std::int64_t workspace_bytes_of(const CpuDevice& /*device*/, const ops::BalanceStatistics& op) {
  const SequenceBlocks cut(op);
  return cut.tasks() * cut.numbers() * size_of(DType::kF64);
}

void execute(CpuDevice& device, const ops::BalanceStatistics& op, const Tensor& scratch) {
  const SequenceBlocks cut(op);
  const float* logits = dense<float>(op.logits);
  auto* counts = dense<std::int32_t>(op.counts);
  double* score_sums = dense<double>(op.score_sums);
  auto* partial = reinterpret_cast<double*>(scratch.data());
  const std::int64_t experts = cut.experts;
  parallel_for(device.threads, cut.tasks(), [&](std::int64_t task) {
    const std::int64_t sequence = task / cut.blocks.count();
    const std::int64_t block = task % cut.blocks.count();
    double* numbers = partial + task * cut.numbers();
    std::fill_n(numbers, cut.numbers(), 0.0);
    for (std::int64_t i = cut.blocks.begin(block); i < cut.blocks.end(block); ++i) {
      const std::int64_t r = i * cut.sequences + sequence;
      if (r < cut.rows) add_row(op, logits + r * experts, experts, numbers);
    }
  });
  double squares = 0.0;
  for (std::int64_t sequence = 0; sequence < cut.sequences; ++sequence) {
    std::int32_t* own_counts = counts + sequence * experts;
    double* sums = score_sums + sequence * experts;
    std::fill_n(own_counts, experts, 0);
    std::fill_n(sums, experts, 0.0);
    for (std::int64_t block = 0; block < cut.blocks.count(); ++block) {
      const double* numbers = partial + (sequence * cut.blocks.count() + block) * cut.numbers();
      for (std::int64_t e = 0; e < experts; ++e) {
        sums[e] += numbers[e];
        own_counts[e] += static_cast<std::int32_t>(numbers[experts + e]);
      }
      squares += numbers[2 * experts];
    }
  }
  if (op.z_loss) *dense<double>(op.z_loss) += op.z_factor * squares;
}

void execute(CpuDevice& /*device*/, const ops::BalanceLoss& op, const Tensor& /*scratch*/) {
  const auto* counts = dense<std::int32_t>(op.counts);
  const double* sums = dense<double>(op.score_sums);
  double total = 0.0;
  for (std::int64_t i = 0; i < op.score_sums.count(); ++i) {
    total += static_cast<double>(counts[i % op.counts.count()]) * sums[i];
  }
  *dense<double>(op.loss) += op.factor * total;
}

void execute(CpuDevice& /*device*/, const ops::BalanceGradient& op, const Tensor& /*scratch*/) {
  const auto* counts = dense<std::int32_t>(op.counts);
  float* dscores = dense<float>(op.dscores);
  const double factor = op.factor * *dense<float>(op.scale);
  for (std::int64_t i = 0; i < op.dscores.count(); ++i) {
    const double before = op.accumulate ? dscores[i] : 0.0;
    dscores[i] = static_cast<float>(before + factor * counts[i % op.counts.count()]);
  }
}

void execute(CpuDevice& /*device*/, const ops::ExpertCounts& op, const Tensor& /*scratch*/) {
  auto* counts = dense<std::int32_t>(op.counts);
  if (!op.accumulate) std::fill_n(counts, op.counts.count(), 0);
  for (const std::int32_t expert : op.experts.span<std::int32_t>()) {
    if (expert >= 0) ++counts[expert];
  }
}

void execute(CpuDevice& /*device*/, const ops::ExpertBiasUpdate& op, const Tensor& /*scratch*/) {
  const auto counts = op.counts.span<std::int32_t>();
  float* bias = dense<float>(op.bias);
  const std::int64_t total = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  const std::int64_t experts = op.bias.count();
  for (std::int64_t e = 0; e < experts; ++e) {
    const std::int64_t missing = total - experts * counts[static_cast<std::size_t>(e)];
    if (missing == 0) continue;
    bias[e] = static_cast<float>(bias[e] + (missing > 0 ? op.rate : -op.rate));
  }
}

}  // namespace phalanx::cpu
