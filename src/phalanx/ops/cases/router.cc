#include "phalanx/ops/router.h"

#include <cmath>

#include "phalanx/ops/balance.h"
#include "phalanx/ops/cases/case.h"
#include "phalanx/ops/elementwise.h"

namespace phalanx::ops {
namespace {

struct RouterSize {
  std::int64_t tokens, experts, chosen;
  RouterRule rule = {};
  bool has_bias = false;
  RouterChoice choice = RouterChoice::kBest;
};

constexpr RouterScore kRouterScores[] = {RouterScore::kSoftmax, RouterScore::kSoftmaxFirst,
                                         RouterScore::kSigmoid, RouterScore::kSqrtSoftplus};

std::string router_name(const RouterSize& size) {
  constexpr const char* kScores[] = {"softmax", "softmax first", "sigmoid", "sqrt(softplus)"};
  constexpr const char* kChoices[] = {"", ", turns", ", given"};
  std::string name =
      fmt::format("{}x{}, {} of them, {}{}{}", size.tokens, size.experts, size.chosen,
                  kScores[static_cast<std::size_t>(size.rule.score)], size.has_bias ? ", bias" : "",
                  kChoices[static_cast<std::size_t>(size.choice)]);
  if (size.rule.groups > 1) {
    name += fmt::format(", {} of {} groups by {}", size.rule.group_topk, size.rule.groups,
                        size.rule.group_best);
  }
  return name;
}

// Experts of which those of a row differ.
Tensor make_experts(Operands& operands, const RouterSize& size, bool has_dropped) {
  std::vector<double> experts;
  for (std::int64_t r = 0; r < size.tokens; ++r) {
    for (std::int64_t j = 0; j < size.chosen; ++j) {
      const auto expert = static_cast<std::int32_t>((5 * r + r / 3 + j) % size.experts);
      experts.push_back(has_dropped && (r + j) % 5 == 0 ? dropped_expert(expert) : expert);
    }
  }
  return operands.values(DType::kI32, {size.tokens, size.chosen}, experts);
}

// Logits are whole numbers where `ties` is true.
Tensor make_logits(Operands& operands, const RouterSize& size, bool ties) {
  Tensor logits = operands.uniform(operands.full(), {size.tokens, size.experts}, -3.0, 3.0);
  if (ties && operands.has_contents() && logits.dtype == DType::kF32) {
    for (float& z : logits.span<float>()) z = std::trunc(z);
  }
  return logits;
}

RouterForward forward_op(Operands& operands, const RouterSize& size, bool ties) {
  const Shape chosen{size.tokens, size.chosen};
  RouterForward op;
  op.experts = size.choice == RouterChoice::kGiven ? make_experts(operands, size, false)
                                                   : operands.output(DType::kI32, chosen);
  op.probabilities = operands.output(operands.full(), chosen);
  op.logits = make_logits(operands, size, ties);
  if (size.has_bias) op.bias = operands.uniform(operands.full(), {size.experts}, -0.5, 0.5);
  op.rule = size.rule;
  op.choice = size.choice;
  return op;
}

Job forward(Operands& operands, const RouterSize& size, bool ties) {
  const RouterForward op = forward_op(operands, size, ties);
  return make_job(op, router_forward, {{op.experts}, near(op.probabilities, 2)});
}

struct Losses {
  std::int64_t sequences = 0;  // of dscores; 0: none
  double z_loss = 0.0;
};

Job backward(Operands& operands, const RouterSize& size, const Losses& losses) {
  const Shape all{size.tokens, size.experts};
  RouterBackward op;
  op.dlogits = operands.output(operands.full(), all);
  op.dprobabilities = operands.uniform(operands.full(), {size.tokens, size.chosen});
  op.logits = operands.uniform(operands.full(), all, -3.0, 3.0);
  op.experts = make_experts(operands, size, true);
  op.rule = size.rule;
  if (losses.sequences > 0) {
    op.dscores = operands.uniform(operands.full(), {losses.sequences, size.experts}, 0.0, 2.0);
  }
  op.z_loss = losses.z_loss;
  if (losses.z_loss != 0.0) op.scale = operands.filled(operands.full(), {1}, 1.5);
  // The terms of a single expert cancel altogether.
  return make_job(op, router_backward, {near(op.dlogits, 4, 1.0, 1e-6)});
}

// Some pairs are dropped before.
Job capacity(Operands& operands, const RouterSize& size, std::int64_t rows, DropPolicy policy,
             bool ties) {
  RouterCapacity op;
  op.experts = make_experts(operands, size, true);
  op.probabilities =
      operands.uniform(operands.full(), {size.tokens, size.chosen}, 0.0, ties ? 6.0 : 1.0);
  if (ties && operands.has_contents() && op.probabilities.dtype == DType::kF32) {
    for (float& p : op.probabilities.span<float>()) p = std::trunc(p) / 4.0F;
  }
  op.all_experts = size.experts;
  op.capacity = rows;
  op.policy = policy;
  return make_job(op, router_capacity, {{op.experts}, {op.probabilities}});
}

Job sinkhorn(Operands& operands, const RouterSize& size) {
  const SinkhornChoice op{
      .experts = operands.output(DType::kI32, {size.tokens, size.chosen}),
      .logits = operands.uniform(operands.full(), {size.tokens, size.experts}, -3.0, 3.0)};
  return make_job(op, sinkhorn_choice, {{op.experts}});
}

// Logits whose order does not change within the steps of a difference.
Tensor spaced_logits(Operands& operands, std::int64_t tokens, std::int64_t experts) {
  std::vector<double> z;
  for (std::int64_t t = 0; t < tokens; ++t) {
    for (std::int64_t e = 0; e < experts; ++e) {
      const auto place = static_cast<double>((5 * e + 3 * t) % experts);
      z.push_back(0.4 * place - 1.0 + 0.05 * std::sin(static_cast<double>(7 * t + 3 * e)));
    }
  }
  return operands.values(DType::kF64, {tokens, experts}, z);
}

// Probabilities, a balancing loss and the z-loss of the same logits.
GradientJob gradients(Operands& operands, const RouterSize& size, std::int64_t sequences) {
  constexpr double kFactor = 0.3;
  constexpr double kScale = 1.5;
  constexpr double kZLoss = 0.07;
  RouterForward op = forward_op(operands, size, false);
  op.logits = spaced_logits(operands, size.tokens, size.experts);
  const Shape of_sequences{sequences, size.experts};
  const BalanceStatistics statistics{.counts = operands.output(DType::kI32, of_sequences),
                                     .score_sums = operands.output(DType::kF64, of_sequences),
                                     .z_loss = operands.filled(DType::kF64, {1}, 0.0),
                                     .logits = op.logits,
                                     .chosen = size.chosen,
                                     .score = size.rule.score,
                                     .z_factor = kZLoss};
  const BalanceLoss loss{.loss = operands.filled(DType::kF64, {1}, 0.0),
                         .counts = statistics.counts,
                         .score_sums = statistics.score_sums,
                         .factor = kFactor};
  const Tensor scale = operands.filled(DType::kF64, {1}, kScale);
  const BalanceGradient balance{.dscores = operands.output(DType::kF64, of_sequences),
                                .counts = statistics.counts,
                                .scale = scale,
                                .factor = kFactor};
  const RouterBackward back{.dlogits = operands.output(DType::kF64, op.logits.shape),
                            .dprobabilities = operands.uniform(op.probabilities.shape),
                            .logits = op.logits,
                            .experts = op.experts,
                            .rule = size.rule,
                            .dscores = balance.dscores,
                            .z_loss = kZLoss,
                            .scale = scale};
  GradientJob job;
  job.forward = [=](Context& context) {
    router_forward(context, op);
    fill(context, {.x = statistics.z_loss, .value = 0.0});
    fill(context, {.x = loss.loss, .value = 0.0});
    balance_statistics(context, statistics);
    balance_loss(context, loss);
  };
  job.backward = [=](Context& context) {
    balance_gradient(context, balance);
    router_backward(context, back);
  };
  job.outputs = {
      {op.probabilities, back.dprobabilities}, {loss.loss, scale}, {statistics.z_loss, scale}};
  job.operands = {{op.logits, back.dlogits}};
  return job;
}

constexpr RouterRule kGrouped{
    .score = RouterScore::kSigmoid, .groups = 8, .group_topk = 4, .group_best = 2, .scaling = 2.5};

void add_forward_cases(CaseTable& table) {
  const auto add = [&](const RouterSize& size, bool ties) {
    table.test("router_forward", router_name(size) + (ties ? ", ties" : ""), kFullPrecision,
               forward, size, ties);
  };
  for (const RouterScore score : kRouterScores) {
    const bool has_bias = !is_softmax(score);
    const RouterRule rule{.score = score, .scaling = 1.5};
    for (const RouterSize& size :
         {RouterSize{0, 4, 2, rule}, RouterSize{1, 1, 1, rule}, RouterSize{3, 8, 8, rule},
          RouterSize{5, 16, 1, rule}, RouterSize{66, 33, 6, rule}, RouterSize{3, 512, 16, rule},
          RouterSize{9, 65, 4, rule, has_bias}}) {
      add(size, false);
    }
    add({17, 64, 5, rule}, true);
    add({17, 64, 5, rule, false, RouterChoice::kTurns}, false);
    add({17, 64, 5, rule, false, RouterChoice::kGiven}, false);
    const RouterRule few{.score = score, .groups = 4, .group_topk = 2, .group_best = 2};
    add({21, 32, 4, few, has_bias}, false);
    add({21, 32, 4, few, has_bias}, true);
  }
  add({11, 256, 8, kGrouped, true}, false);
  const RouterRule single{.score = RouterScore::kSoftmaxFirst, .groups = 40, .group_topk = 33};
  add({5, 40, 3, single}, false);
}

void add_backward_cases(CaseTable& table) {
  for (const RouterScore score : kRouterScores) {
    const RouterRule rule{.score = score, .scaling = 1.5};
    for (const Losses& losses : {Losses{}, Losses{1, 0.0}, Losses{3, 0.01}, Losses{0, 0.01}}) {
      for (const RouterSize& size : {RouterSize{0, 4, 2, rule}, RouterSize{1, 1, 1, rule},
                                     RouterSize{3, 8, 8, rule}, RouterSize{5, 16, 1, rule},
                                     RouterSize{37, 33, 6, rule}, RouterSize{3, 512, 16, rule}}) {
        table.test("router_backward",
                   fmt::format("{}, {} sequences, z-loss {}", router_name(size), losses.sequences,
                               losses.z_loss),
                   kFullPrecision, backward, size, losses);
      }
    }
  }
}

void add_capacity_cases(CaseTable& table) {
  for (const RouterSize& size : {RouterSize{0, 4, 2}, RouterSize{1, 1, 1}, RouterSize{7, 3, 3},
                                 RouterSize{300, 5, 2}, RouterSize{65, 130, 8}}) {
    for (const std::int64_t rows : {0, 1, 4, 50, 1000}) {
      const std::string name =
          fmt::format("{}x{} of {}, {} rows", size.tokens, size.chosen, size.experts, rows);
      table.test("router_capacity", name, kFullPrecision, capacity, size, rows,
                 DropPolicy::kProbability, false);
      table.test("router_capacity", name + ", ties", kFullPrecision, capacity, size, rows,
                 DropPolicy::kProbability, true);
      table.test("router_capacity", name + ", by position", kFullPrecision, capacity, size, rows,
                 DropPolicy::kPosition, false);
    }
  }
}

}  // namespace

void add_router_cases(CaseTable& table) {
  add_forward_cases(table);
  add_backward_cases(table);
  add_capacity_cases(table);
  for (const RouterSize& size : {RouterSize{0, 4, 2}, RouterSize{1, 1, 1}, RouterSize{6, 8, 2},
                                 RouterSize{45, 17, 3}, RouterSize{7, 512, 16}}) {
    table.test("sinkhorn_choice",
               fmt::format("{}x{}, {} of them", size.tokens, size.experts, size.chosen),
               kFullPrecision, sinkhorn, size);
  }
  for (const RouterScore score : kRouterScores) {
    const RouterRule rule{.score = score, .scaling = 2.5};
    for (const std::int64_t chosen : {1, 3, 8}) {
      const RouterSize size{6, 8, chosen, rule, !is_softmax(score)};
      table.differentiate("router", router_name(size) + ", 2 sequences", gradients, size,
                          std::int64_t{2});
    }
  }
  const RouterSize grouped{5, 16, 4, kGrouped, true};
  table.differentiate("router", router_name(grouped), gradients, grouped, std::int64_t{1});

  const RouterSize large{4096, 64, 6};
  table.time("router_forward", router_name(large), kFullPrecision, forward, large, false);
  const RouterSize larger{4096, 256, 8, kGrouped, true};
  table.time("router_forward", router_name(larger), kFullPrecision, forward, larger, false);
  table.time("router_backward", router_name(larger), kFullPrecision, backward, larger,
             Losses{4, 0.001});
  table.time("router_capacity", "4096x8 of 256, 128 rows", kFullPrecision, capacity, larger,
             std::int64_t{128}, DropPolicy::kProbability, false);
}

}  // namespace phalanx::ops
