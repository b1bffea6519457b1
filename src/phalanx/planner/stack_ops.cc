#include "phalanx/planner/stack_ops.h"

#include <cstddef>
#include <cstdint>
#include <set>
#include <utility>

#include "phalanx/clock/pricing.h"

namespace phalanx {
namespace {

constexpr double kPhalanxGradientBytes = 4.0;

bool is_loss(const TraceEvent& event) {
  const OpCost* const cost = op_of(event);
  return cost != nullptr && cost->name.find("cross_entropy") != std::string_view::npos;
}
// An op that moves so many bytes.
OpRun moving(std::string_view name, double bytes) {
  return {.cost = {.name = name, .bytes_read = static_cast<std::int64_t>(bytes)}};
}

std::int64_t results_of(const ProductShape& shape) { return shape.m * shape.n * shape.batch; }

// Of the messages of the loss's parts only the first is left.
Trace without_more_statistics(const Trace& events, std::size_t place) {
  Trace all;
  std::set<std::uint64_t> dropped;
  bool has_one = false;
  for (std::size_t i = 0; i < events.size(); ++i) {
    const auto* const awaited = std::get_if<Awaited>(&events[i]);
    if (awaited != nullptr && dropped.contains(awaited->work)) continue;
    const MessageBegun* const message =
        i > place ? message_of(events[i], TimePart::kTensor) : nullptr;
    if (message != nullptr && std::exchange(has_one, true)) {
      dropped.insert(message->work);
      continue;
    }
    all.push_back(events[i]);
  }
  return all;
}

// Phalanx computes logits and their loss some rows at a time.
Trace loss_at_once(const SoftwareStack& stack, const Trace& events) {
  const auto is_last = [&](std::size_t i) {
    return is_product(events[i], "linear_forward") && i + 1 < events.size() &&
           is_loss(events[i + 1]);
  };
  Trace all;
  std::size_t place = 0;  // of the one product
  OpRun whole;
  for (std::size_t i = 0; i < events.size(); ++i) {
    const OpCost* const cost = op_of(events[i]);
    if (is_last(i)) {
      if (whole.cost.product.batch == 0) {
        whole.cost = *cost;
        place = all.size();
      } else {
        whole.cost.product.m += cost->product.m;
      }
      continue;
    }
    if (is_loss(events[i])) continue;
    all.push_back(events[i]);
  }
  if (whole.cost.product.batch == 0) return events;
  const auto logits = static_cast<double>(results_of(whole.cost.product));
  const auto at = all.begin() + static_cast<std::ptrdiff_t>(place);
  const auto moved = all.insert(at, moving("cross_entropy", logits * stack.logit_bytes));
  all.insert(moved, whole);
  return without_more_statistics(all, place);
}

void add_ops(const SoftwareStack& stack, ActionKind kind, const OpRun& run, Trace& all) {
  const OpCost& cost = run.cost;
  const bool is_backward = is_pass(kind) && kind != ActionKind::kForward;
  if (kind == ActionKind::kOptimizerStep && cost.name == "adam") {
    constexpr double kRead = 16.0;  // for each parameter: gradient, two moments, the weight
    const double parameters = static_cast<double>(cost.bytes_read) / kRead;
    all.push_back(moving(cost.name, parameters * stack.optimizer_bytes));
    return;
  }
  if (kind == ActionKind::kOptimizerStep && cost.name == "square_sum") return;
  if (is_backward && stack.keeps_outputs &&
      (cost.name.ends_with("norm_apply") || cost.name.ends_with("activation_forward"))) {
    return;
  }
  all.emplace_back(run);
  if (cost.product.batch == 0) return;
  if (const auto activation = activation_of(cost); activation && stack.separate_activation) {
    // The product alone, then the op.
    OpCost& product = std::get<OpRun>(all.back()).cost;
    product.bytes_read = product.bytes_written = 0;
    all.push_back(moving(activation->op, activation->bytes));
  }
  if (stack.accumulation_bytes > 0.0 && cost.name == "linear_weight_gradient") {
    all.push_back(moving("accumulate",
                         static_cast<double>(results_of(cost.product)) * stack.accumulation_bytes));
  }
}

Trace with_other_ops(const SoftwareStack& stack, ActionKind kind, const Trace& events) {
  Trace all;
  for (const TraceEvent& event : events) {
    if (const auto* const run = std::get_if<OpRun>(&event)) {
      add_ops(stack, kind, *run, all);
      continue;
    }
    all.push_back(event);
    auto* const message = std::get_if<MessageBegun>(&all.back());
    if (message == nullptr || part_of_group(message->group->name) != TimePart::kData) continue;
    if (message->op == "all_reduce" || message->op == "reduce_scatter") {
      message->bytes = static_cast<std::int64_t>(static_cast<double>(message->bytes) *
                                                 stack.gradient_bytes / kPhalanxGradientBytes);
    }
  }
  return all;
}

}  // namespace

const OpCost* op_of(const TraceEvent& event) {
  const auto* const run = std::get_if<OpRun>(&event);
  return run != nullptr ? &run->cost : nullptr;
}
bool is_product(const TraceEvent& event, std::string_view name) {
  const OpCost* const cost = op_of(event);
  return cost != nullptr && cost->name == name && cost->product.batch > 0;
}
bool is_norm_forward(const TraceEvent& event) {
  const OpCost* const cost = op_of(event);
  return cost != nullptr && cost->name.ends_with("norm_forward");
}
const MessageBegun* message_of(const TraceEvent& event, TimePart part) {
  const auto* const message = std::get_if<MessageBegun>(&event);
  return message != nullptr && part_of_group(message->group->name) == part ? message : nullptr;
}

Trace with_ops_of(const SoftwareStack& stack, ActionKind kind, const Trace& events) {
  const bool has_loss = kind == ActionKind::kForward && stack.logit_bytes > 0.0;
  return with_other_ops(stack, kind, has_loss ? loss_at_once(stack, events) : events);
}

}  // namespace phalanx
