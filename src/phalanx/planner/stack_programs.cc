#include "phalanx/planner/stack_programs.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "phalanx/planner/stack_ops.h"

namespace phalanx {
namespace {

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
    Trace all = with_ops_of(stack_, action.kind, events);
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
