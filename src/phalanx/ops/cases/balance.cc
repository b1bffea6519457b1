#include "phalanx/ops/balance.h"

#include "phalanx/ops/cases/case.h"

namespace phalanx::ops {
namespace {

struct BalanceSize {
  std::int64_t tokens, sequences, experts, chosen;
};

std::string balance_name(const BalanceSize& size) {
  return fmt::format("{}x{} in {} sequences, {} of them", size.tokens, size.experts, size.sequences,
                     size.chosen);
}

Job statistics(Operands& operands, const BalanceSize& size, RouterScore score, bool has_z_loss) {
  const Shape shape{size.sequences, size.experts};
  BalanceStatistics op;
  op.counts = operands.output(DType::kI32, shape);
  op.score_sums = operands.output(DType::kF64, shape);
  if (has_z_loss) op.z_loss = operands.filled(DType::kF64, {1}, 0.5);
  op.logits = operands.uniform(operands.full(), {size.tokens, size.experts}, -3.0, 3.0);
  op.chosen = size.chosen;
  op.score = score;
  op.z_factor = 0.1;
  std::vector<Output> outputs = {{op.counts}, {op.score_sums, 1e-13}};
  if (has_z_loss) outputs.push_back({op.z_loss, 1e-13});
  return make_job(op, balance_statistics, outputs);
}

// One row of counts for all sequences, or a row for each.
Job loss(Operands& operands, std::int64_t sequences, std::int64_t experts, bool together) {
  const BalanceLoss op{
      .loss = operands.filled(DType::kF64, {1}, 0.25),
      .counts = operands.integers({together ? 1 : sequences, experts}, 0, 1000),
      .score_sums = operands.uniform(DType::kF64, {sequences, experts}, 0.0, 100.0),
      .factor = 1e-3};
  return make_job(op, balance_loss, {{op.loss, 1e-13}});
}

Job gradient(Operands& operands, std::int64_t sequences, std::int64_t experts, bool together,
             bool accumulate) {
  const BalanceGradient op{
      .dscores = operands.uniform(operands.full(), {sequences, experts}),
      .counts = operands.integers({together ? 1 : sequences, experts}, 0, 1000),
      .scale = operands.filled(operands.full(), {1}, 1.5),
      .factor = 1e-3,
      .accumulate = accumulate};
  return make_job(op, balance_gradient, {near(op.dscores, 2)});
}

// About a third of the pairs is dropped.
Job counts(Operands& operands, std::int64_t experts, std::int64_t tokens, std::int64_t chosen,
           bool accumulate) {
  const ExpertCounts op{.counts = operands.integers({experts}, 0, 100),
                        .experts = operands.integers({tokens, chosen}, -(experts + 1) / 2, experts),
                        .accumulate = accumulate};
  return make_job(op, expert_counts, {{op.counts}});
}

Job bias(Operands& operands, std::int64_t experts, std::int64_t most) {
  const ExpertBiasUpdate op{.bias = operands.uniform(operands.full(), {experts}),
                            .counts = operands.integers({experts}, 0, most),
                            .rate = 1e-3};
  return make_job(op, expert_bias_update, {near(op.bias, 2)});
}

}  // namespace

void add_balance_cases(CaseTable& table) {
  for (const RouterScore score :
       {RouterScore::kSoftmax, RouterScore::kSigmoid, RouterScore::kSqrtSoftplus}) {
    for (const BalanceSize& size :
         {BalanceSize{0, 2, 4, 2}, BalanceSize{1, 1, 1, 1}, BalanceSize{6, 2, 8, 2},
          BalanceSize{301, 2, 33, 6}, BalanceSize{13, 5, 512, 16}}) {
      for (const bool has_z_loss : {false, true}) {
        table.test("balance_statistics",
                   fmt::format("{}, score {}{}", balance_name(size), static_cast<int>(score),
                               has_z_loss ? ", z-loss" : ""),
                   kFullPrecision, statistics, size, score, has_z_loss);
      }
    }
  }
  for (const std::int64_t experts : {1, 8, 65, 512}) {
    for (const bool together : {false, true}) {
      const std::string name =
          fmt::format("3x{}{}", experts, together ? ", counts of all sequences" : "");
      table.test("balance_loss", name, kFullPrecision, loss, std::int64_t{3}, experts, together);
      for (const bool accumulate : {false, true}) {
        table.test("balance_gradient", name + (accumulate ? ", added" : ""), kFullPrecision,
                   gradient, std::int64_t{3}, experts, together, accumulate);
      }
    }
    for (const bool accumulate : {false, true}) {
      for (const std::int64_t tokens : {0, 1, 37, 2100}) {
        table.test("expert_counts",
                   fmt::format("{}x2 of {}{}", tokens, experts, accumulate ? ", added" : ""),
                   kFullPrecision, counts, experts, tokens, std::int64_t{2}, accumulate);
      }
    }
    // Few counts are often the mean.
    for (const std::int64_t most : {3, 1000000}) {
      table.test("expert_bias_update", fmt::format("{} experts, counts below {}", experts, most),
                 kFullPrecision, bias, experts, most);
    }
  }
  const BalanceSize large{4096, 4, 256, 8};
  table.time("balance_statistics", balance_name(large), kFullPrecision, statistics, large,
             RouterScore::kSigmoid, true);
}

}  // namespace phalanx::ops
