#include "phalanx/ops/router.h"

#include <algorithm>
#include <cmath>

#include "phalanx/ops/backend.h"
#include "phalanx/ops/check.h"
#include "phalanx/ops/memory_cost.h"

namespace phalanx::ops {
namespace {

void expect_logits(std::string_view name, const Tensor& logits) {
  expect_full_precision(name, "logits", logits);
  PHALANX_CHECK(logits.shape.rank() == 2 && logits.shape[1] <= kMostExperts,
                "{}: logits {}, of {} experts at most", name, logits.shape.to_string(),
                kMostExperts);
  expect_contiguous(name, logits);
}

void expect_experts(std::string_view name, const Tensor& experts, std::int64_t tokens,
                    std::int64_t all_experts) {
  PHALANX_CHECK(experts.shape.rank() == 2, "{}: experts {}", name, experts.shape.to_string());
  const std::int64_t chosen = experts.shape[1];
  expect_shape(name, "experts", experts, {tokens, chosen}, DType::kI32);
  PHALANX_CHECK(chosen >= 1 && chosen <= std::min(all_experts, kMostChosenExperts),
                "{}: {} of {} experts for a token, {} at most", name, chosen, all_experts,
                kMostChosenExperts);
  expect_contiguous(name, experts);
}

void expect_rule(std::string_view name, const RouterRule& rule, std::int64_t experts,
                 std::int64_t chosen) {
  PHALANX_CHECK(rule.groups >= 1 && experts % rule.groups == 0 && rule.group_topk >= 1 &&
                    rule.group_topk <= rule.groups,
                "{}: {} of {} groups of {} experts", name, rule.group_topk, rule.groups, experts);
  const std::int64_t of_group = experts / rule.groups;
  PHALANX_CHECK(rule.group_best >= 1 && rule.group_best <= of_group,
                "{}: the best {} of the {} experts of a group", name, rule.group_best, of_group);
  PHALANX_CHECK(chosen <= rule.group_topk * of_group, "{}: {} experts out of {} groups of {}", name,
                chosen, rule.group_topk, of_group);
}

}  // namespace

OpCost cost(const RouterForward& op) {
  return memory_cost("router_forward", moved(op.logits, op.bias),
                     moved(op.experts, op.probabilities));
}
OpCost cost(const RouterBackward& op) {
  return memory_cost("router_backward", moved(op.logits, op.dprobabilities, op.experts, op.dscores),
                     moved(op.dlogits));
}
OpCost cost(const RouterCapacity& op) {
  const std::int64_t bytes = bytes_of(op.experts, op.probabilities);
  return memory_cost("router_capacity", bytes, bytes);
}
OpCost cost(const SinkhornChoice& op) {
  return memory_cost("sinkhorn_choice", moved(op.logits), moved(op.experts));
}

std::int64_t expert_capacity(std::int64_t tokens, std::int64_t chosen, std::int64_t experts,
                             double factor) {
  const double pairs = static_cast<double>(tokens) * static_cast<double>(chosen);
  const double rows = std::ceil(pairs / static_cast<double>(experts) * factor);
  return std::min(tokens, static_cast<std::int64_t>(rows));
}

void router_forward(Context& context, const RouterForward& op) {
  expect_logits("router_forward", op.logits);
  const std::int64_t experts = op.logits.shape[1];
  expect_experts("router_forward", op.experts, op.logits.shape[0], experts);
  expect_shape("router_forward", "probabilities", op.probabilities, op.experts.shape,
               op.logits.dtype);
  if (op.bias) {
    PHALANX_CHECK(!is_softmax(op.rule.score), "router_forward: a bias beside softmax");
    expect_shape("router_forward", "bias", op.bias, {experts}, op.logits.dtype);
  }
  expect_rule("router_forward", op.rule, experts, op.experts.shape[1]);
  expect_contiguous("router_forward", op.probabilities, op.bias);
  enqueue(context, op);
}

void router_backward(Context& context, const RouterBackward& op) {
  expect_logits("router_backward", op.logits);
  const std::int64_t experts = op.logits.shape[1];
  expect_experts("router_backward", op.experts, op.logits.shape[0], experts);
  expect_shape("router_backward", "dlogits", op.dlogits, op.logits.shape, op.logits.dtype);
  expect_shape("router_backward", "dprobabilities", op.dprobabilities, op.experts.shape,
               op.logits.dtype);
  if (op.dscores) {
    PHALANX_CHECK(op.dscores.shape.rank() == 2 && op.dscores.shape[0] >= 1,
                  "router_backward: dscores {}", op.dscores.shape.to_string());
    expect_shape("router_backward", "dscores", op.dscores, {op.dscores.shape[0], experts},
                 op.logits.dtype);
  }
  if (op.z_loss != 0.0) expect_full_precision("router_backward", "scale", op.scale, {1});
  expect_rule("router_backward", op.rule, experts, op.experts.shape[1]);
  expect_contiguous("router_backward", op.dlogits, op.dprobabilities, op.dscores);
  enqueue(context, op);
}

void router_capacity(Context& context, const RouterCapacity& op) {
  PHALANX_CHECK(op.experts.shape.rank() == 2, "router_capacity: experts {}",
                op.experts.shape.to_string());
  PHALANX_CHECK(op.all_experts >= 1 && op.all_experts <= kMostExperts && op.capacity >= 0,
                "router_capacity: {} rows for each of {} experts", op.capacity, op.all_experts);
  expect_experts("router_capacity", op.experts, op.experts.shape[0], op.all_experts);
  expect_full_precision("router_capacity", "probabilities", op.probabilities, op.experts.shape);
  expect_contiguous("router_capacity", op.probabilities);
  enqueue(context, op);
}

void sinkhorn_choice(Context& context, const SinkhornChoice& op) {
  expect_logits("sinkhorn_choice", op.logits);
  expect_experts("sinkhorn_choice", op.experts, op.logits.shape[0], op.logits.shape[1]);
  enqueue(context, op);
}

}  // namespace phalanx::ops
