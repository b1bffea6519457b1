#include "phalanx/planner/stack_programs.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "phalanx/clock/pricing.h"

namespace phalanx {
namespace {

constexpr double kPhalanxGradientBytes = 4.0;

const OpCost* op_of(const TraceEvent& event) {
  const auto* const run = std::get_if<OpRun>(&event);
  return run != nullptr ? &run->cost : nullptr;
}
bool is_op(const TraceEvent& event, std::string_view name) {
  const OpCost* const cost = op_of(event);
  return cost != nullptr && cost->name == name;
}
bool is_product(const TraceEvent& event, std::string_view name) {
  return is_op(event, name) && op_of(event)->product.batch > 0;
}
bool is_norm_forward(const TraceEvent& event) {
  const OpCost* const cost = op_of(event);
  return cost != nullptr && cost->name.ends_with("norm_forward");
}
bool is_loss(const TraceEvent& event) {
  const OpCost* const cost = op_of(event);
  return cost != nullptr && cost->name.find("cross_entropy") != std::string_view::npos;
}
const MessageBegun* message_of(const TraceEvent& event, TimePart part) {
  const auto* const message = std::get_if<MessageBegun>(&event);
  return message != nullptr && part_of_group(message->group->name) == part ? message : nullptr;
}

// An op that moves so many bytes.
OpRun moving(std::string_view name, double bytes) {
  return {.cost = {.name = name, .bytes_read = static_cast<std::int64_t>(bytes)}};
}

std::int64_t results_of(const ProductShape& shape) { return shape.m * shape.n * shape.batch; }
double result_bytes(const OpCost& cost) {
  return static_cast<double>(results_of(cost.product) * size_of(cost.dtype));
}
double factor_bytes(const OpCost& cost) {
  const ProductShape& shape = cost.product;
  return static_cast<double>((shape.m * shape.k + shape.k * shape.n) * shape.batch *
                             size_of(cost.dtype));
}
// A product that also applies an activation function writes its input and its output.
bool ends_with_activation(const OpCost& cost) {
  return cost.name == "linear_forward" &&
         static_cast<double>(cost.bytes_written) > 1.5 * result_bytes(cost);
}
// ... and its gradient reads the function's input beside the factors.
bool begins_with_activation(const OpCost& cost) {
  return cost.name == "linear_input_gradient" &&
         static_cast<double>(cost.bytes_read) > factor_bytes(cost) + 0.5 * result_bytes(cost);
}

class StackProgram {
 public:
  StackProgram(const SoftwareStack& stack, const RankTrace& trace) : stack_(stack), trace_(trace) {
    for (const Trace& action : trace.distinct) {
      for_each_event<MessageBegun>(action, [this](const MessageBegun& message) {
        last_work_ = std::max(last_work_, message.work);
      });
    }
  }

  RankTrace run() {
    std::set<std::size_t> done;
    for (std::size_t i = 0; i < trace_.actions.size(); ++i) {
      const Action& action = trace_.actions[i];
      Trace& events = trace_.distinct[trace_.numbers[i]];
      if (!done.insert(trace_.numbers[i]).second) continue;
      events = changed(action, events);
    }
    if (!stack_.hides_data) sum_gradients_after_passes();
    if (!stack_.cuts_messages) send_whole_messages();
    return std::move(trace_);
  }

 private:
  Trace changed(const Action& action, const Trace& events) {
    Trace all = events;
    if (action.kind == ActionKind::kForward && stack_.logit_bytes > 0.0) all = loss_at_once(all);
    all = with_other_ops(action.kind, all);
    if (action.kind == ActionKind::kForward) forwards_.try_emplace(action.chunk, all);
    if (action.kind == ActionKind::kBackward && stack_.recomputes_whole_layers) {
      all = recomputed_to_the_end(action.chunk, all);
    }
    if (stack_.tensor == TensorTraffic::kNothing) all = awaited_at_once(all);
    if (stack_.tensor == TensorTraffic::kWeightGradient && is_pass(action.kind) &&
        makes_input_gradient(action.kind)) {
      all = under_weight_gradients(all);
    }
    return all;
  }

  // A layer that is recomputed begins with a norm and ends with the product before its backward
  // pass: what follows that product in the forward pass, up to the next layer's norm, is added.
  Trace recomputed_to_the_end(int chunk, const Trace& events) {
    const auto forward = forwards_.find(chunk);
    if (forward == forwards_.end()) return events;
    Trace all;
    for (std::size_t i = 0; i < events.size(); ++i) {
      if (!is_norm_forward(events[i])) {
        all.push_back(events[i]);
        continue;
      }
      const std::size_t end = end_of_recomputation(events, i);
      const std::size_t last = last_product(events, i, end);
      all.insert(all.end(), events.begin() + static_cast<std::ptrdiff_t>(i),
                 events.begin() + static_cast<std::ptrdiff_t>(last));
      const Trace tail =
          last < end ? rest_of_layer(forward->second, op_of(events[last])->product) : Trace();
      if (tail.empty()) {
        all.insert(all.end(), events.begin() + static_cast<std::ptrdiff_t>(last),
                   events.begin() + static_cast<std::ptrdiff_t>(end));
      }
      all.insert(all.end(), tail.begin(), tail.end());
      i = end - 1;
    }
    return all;
  }

  // One past the last event before the first op of the backward pass.
  static std::size_t end_of_recomputation(const Trace& events, std::size_t begin) {
    std::size_t end = begin;
    for (std::size_t i = begin; i < events.size(); ++i) {
      const OpCost* const cost = op_of(events[i]);
      if (cost == nullptr) continue;
      if (cost->name.find("backward") != std::string_view::npos ||
          cost->name.find("gradient") != std::string_view::npos) {
        break;
      }
      end = i + 1;
    }
    return end;
  }

  static std::size_t last_product(const Trace& events, std::size_t begin, std::size_t end) {
    for (std::size_t i = end; i-- > begin;) {
      if (is_product(events[i], "linear_forward")) return i;
    }
    return end;
  }

  // From the first product of this shape up to the next norm but those of the same sublayer.
  Trace rest_of_layer(const Trace& forward, const ProductShape& shape) {
    const auto first = std::ranges::find_if(forward, [&](const TraceEvent& event) {
      return is_product(event, "linear_forward") && op_of(event)->product == shape;
    });
    Trace rest(first, std::find_if(first, forward.end(), is_norm_forward));
    std::map<std::uint64_t, std::uint64_t> numbers;
    for (TraceEvent& event : rest) {
      if (auto* const message = std::get_if<MessageBegun>(&event)) {
        const auto [found, is_new] = numbers.try_emplace(message->work, last_work_ + 1);
        if (is_new) ++last_work_;
        message->work = found->second;
      } else if (auto* const awaited = std::get_if<Awaited>(&event)) {
        const auto found = numbers.find(awaited->work);
        if (found != numbers.end()) awaited->work = found->second;
      }
    }
    return rest;
  }

  // Phalanx computes logits and their loss some rows at a time.
  Trace loss_at_once(const Trace& events) const {
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
    const auto moved = all.insert(at, moving("cross_entropy", logits * stack_.logit_bytes));
    all.insert(moved, whole);
    return without_more_statistics(all, place);
  }

  // Of the messages of the loss's parts only the first is left.
  static Trace without_more_statistics(const Trace& events, std::size_t place) {
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

  Trace with_other_ops(ActionKind kind, const Trace& events) const {
    Trace all;
    for (const TraceEvent& event : events) {
      if (const auto* const run = std::get_if<OpRun>(&event)) {
        add_ops(kind, *run, all);
        continue;
      }
      all.push_back(event);
      auto* const message = std::get_if<MessageBegun>(&all.back());
      if (message == nullptr || part_of_group(message->group->name) != TimePart::kData) continue;
      if (message->op == "all_reduce" || message->op == "reduce_scatter") {
        message->bytes = static_cast<std::int64_t>(static_cast<double>(message->bytes) *
                                                   stack_.gradient_bytes / kPhalanxGradientBytes);
      }
    }
    return all;
  }

  void add_ops(ActionKind kind, const OpRun& run, Trace& all) const {
    const OpCost& cost = run.cost;
    const bool is_backward = is_pass(kind) && kind != ActionKind::kForward;
    if (kind == ActionKind::kOptimizerStep && cost.name == "adam") {
      constexpr double kRead = 16.0;  // for each parameter: gradient, two moments, the weight
      const double parameters = static_cast<double>(cost.bytes_read) / kRead;
      all.push_back(moving(cost.name, parameters * stack_.optimizer_bytes));
      return;
    }
    if (kind == ActionKind::kOptimizerStep && cost.name == "square_sum") return;
    if (is_backward && stack_.keeps_outputs &&
        (cost.name.ends_with("norm_apply") || cost.name.ends_with("activation_forward"))) {
      return;
    }
    all.emplace_back(run);
    if (cost.product.batch == 0) return;
    if (stack_.separate_activation && ends_with_activation(cost)) {
      all.push_back(moving("activation_forward", 2.0 * result_bytes(cost)));
    }
    if (stack_.separate_activation && begins_with_activation(cost)) {
      all.push_back(moving("activation_backward", 3.0 * result_bytes(cost)));
    }
    if (stack_.accumulation_bytes > 0.0 && cost.name == "linear_weight_gradient") {
      all.push_back(moving(
          "accumulate", static_cast<double>(results_of(cost.product)) * stack_.accumulation_bytes));
    }
  }

  static Trace awaited_at_once(const Trace& events) {
    std::map<std::uint64_t, std::size_t> last;  // begin of a message, by its number
    for (std::size_t i = 0; i < events.size(); ++i) {
      const MessageBegun* const message = message_of(events[i], TimePart::kTensor);
      if (message != nullptr) last[message->work] = i;
    }
    Trace all;
    for (std::size_t i = 0; i < events.size(); ++i) {
      const auto* const awaited = std::get_if<Awaited>(&events[i]);
      if (awaited != nullptr && last.contains(awaited->work)) continue;
      all.push_back(events[i]);
      const MessageBegun* const message = message_of(events[i], TimePart::kTensor);
      if (message != nullptr && last[message->work] == i) {
        all.emplace_back(Awaited{message->work});
      }
    }
    return all;
  }

  // Phalanx begins a sum of input gradients before all weight gradients of the sublayer: it moves
  // behind all of them but the last.
  static Trace under_weight_gradients(const Trace& events) {
    Trace all = events;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto* const awaited = std::get_if<Awaited>(&all[i]);
      if (awaited == nullptr) continue;
      const auto begin = std::find_if(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(i),
                                      [&](const TraceEvent& event) {
                                        const auto* const m = message_of(event, TimePart::kTensor);
                                        return m != nullptr && m->work == awaited->work;
                                      });
      auto gradient = all.begin() + static_cast<std::ptrdiff_t>(i);
      while (gradient > begin && !is_product(*gradient, "linear_weight_gradient")) --gradient;
      if (gradient > begin) std::rotate(begin, begin + 1, gradient);
    }
    return all;
  }

  // What belongs to data parallelism begins in the optimizer's action, one after the other.
  void sum_gradients_after_passes() {
    Trace sums;
    std::set<std::size_t> done;
    Trace* step = nullptr;
    for (std::size_t i = 0; i < trace_.actions.size(); ++i) {
      const ActionKind kind = trace_.actions[i].kind;
      Trace& events = trace_.distinct[trace_.numbers[i]];
      if (kind == ActionKind::kOptimizerStep) step = &events;
      if (!done.insert(trace_.numbers[i]).second) continue;
      if (kind == ActionKind::kGatherParameters) events = gathered_at_once(events);
      if (is_pass(kind) || kind == ActionKind::kReduceGradients) {
        std::erase_if(events, [&](const TraceEvent& event) {
          const bool is_sum = message_of(event, TimePart::kData) != nullptr;
          if (is_sum) sums.push_back(event);
          return is_sum;
        });
      }
    }
    if (step == nullptr) return;
    Trace first;
    for (const TraceEvent& event : sums) {
      first.push_back(event);
      first.emplace_back(Awaited{std::get<MessageBegun>(event).work});
    }
    step->insert(step->begin(), first.begin(), first.end());
  }

  // Who receives a share gathers the others' at once.
  void send_whole_messages() {
    std::size_t shares = 1;
    for (std::size_t i = 0; i < trace_.actions.size(); ++i) {
      if (trace_.actions[i].kind != ActionKind::kReceive) continue;
      Trace& events = trace_.distinct[trace_.numbers[i]];
      std::erase_if(events, [&](const TraceEvent& event) {
        const MessageBegun* const message = message_of(event, TimePart::kTensor);
        if (message != nullptr) shares = message->group->ranks.size();
        return message != nullptr;
      });
    }
    std::set<std::size_t> done;
    for (std::size_t i = 0; i < trace_.actions.size(); ++i) {
      if (trace_.actions[i].kind != ActionKind::kSend) continue;
      if (!done.insert(trace_.numbers[i]).second) continue;
      for (TraceEvent& event : trace_.distinct[trace_.numbers[i]]) {
        auto* const message = std::get_if<MessageBegun>(&event);
        if (message != nullptr) message->bytes *= static_cast<std::int64_t>(shares);
      }
    }
  }

  static Trace gathered_at_once(const Trace& events) {
    Trace all;
    for (const TraceEvent& event : events) {
      all.push_back(event);
      if (const MessageBegun* const message = message_of(event, TimePart::kData)) {
        all.emplace_back(Awaited{message->work});
      }
    }
    return all;
  }

  const SoftwareStack& stack_;
  RankTrace trace_;
  std::map<int, Trace> forwards_;  // by chunk
  std::uint64_t last_work_ = 0;
};

}  // namespace

RankTrace as_done_by(const SoftwareStack& stack, const RankTrace& trace) {
  return StackProgram(stack, trace).run();
}

}  // namespace phalanx
