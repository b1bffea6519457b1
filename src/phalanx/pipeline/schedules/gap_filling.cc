#include "phalanx/pipeline/schedules/gap_filling.h"

#include <algorithm>
#include <limits>
#include <queue>
#include <tuple>

#include "phalanx/pipeline/schedules/order_cost.h"

namespace phalanx {
namespace {

constexpr double kRounding = 1e-12;
constexpr double kUnknown = std::numeric_limits<double>::infinity();

std::size_t index(int value) { return static_cast<std::size_t>(value); }

// A rank in simulated time.
struct GapFilledRank {
  int forward = 0;  // the next microbatch of each pass
  int input = 0;
  int weight = 0;
  bool is_forward_turn = true;
  double held = 0.0;
  double free_at = 0.0;
  double idle = 0.0;               // since its first pass
  double first_gradient = 0.0;     // the earliest time at which it can be there
  std::vector<double> activation;  // by microbatch: when its input is there
  std::vector<double> gradient;
  std::vector<Action> order;
};

class GapFilling {
 public:
  GapFilling(const ScheduleRequest& request, double memory_limit, const GapFillingRule& rule)
      : costs_(request.costs),
        message_(request.costs.message()),
        microbatches_(request.microbatches),
        memory_limit_(memory_limit),
        rule_(rule),
        ranks_(static_cast<std::size_t>(request.ranks)) {
    double entry = 0.0;
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      ranks_[r].activation.assign(index(microbatches_), r == 0 ? 0.0 : kUnknown);
      ranks_[r].gradient.assign(index(microbatches_), kUnknown);
      ranks_[r].order.reserve(3 * index(microbatches_));
      entry += costs(r).forward + (r + 1 < ranks_.size() ? message_ : 0.0);
    }
    for (std::size_t r = ranks_.size(); r-- > 0;) {
      ranks_[r].first_gradient = entry;
      entry += costs(r).backward_input + message_;
    }
  }

  std::optional<ActionLists> run() {
    wake(0, 0.0);
    while (!events_.empty()) {
      const auto [now, r] = events_.top();
      events_.pop();
      if (ranks_[r].free_at <= now) decide(r, now);
    }
    ActionLists lists;
    for (GapFilledRank& rank : ranks_) {
      if (rank.weight < microbatches_) return std::nullopt;
      lists.push_back(std::move(rank.order));
    }
    return lists;
  }

 private:
  using Event = std::tuple<double, std::size_t>;  // (time, rank)

  const StageCosts& costs(std::size_t rank) const { return costs_.stage(static_cast<int>(rank)); }
  void wake(std::size_t rank, double time) { events_.emplace(time, rank); }

  double arrival(const std::vector<double>& arrivals, int next) const {
    return next < microbatches_ ? arrivals[index(next)] : kUnknown;
  }

  void decide(std::size_t r, double now) {
    GapFilledRank& rank = ranks_[r];
    const double activation = arrival(rank.activation, rank.forward);
    const double gradient = arrival(rank.gradient, rank.input);
    const bool fits = rank.held + 1.0 <= memory_limit_;
    const bool can_forward = activation <= now && fits && !is_late(r, now);
    const bool prefers_backward = !rank.is_forward_turn || rule_.backward_first;
    if (gradient <= now && (prefers_backward || !can_forward)) return input_gradient(r, now);
    if (can_forward) return forward(r, now);
    if (rank.weight == rank.input) return;
    const double next = std::min(fits ? std::max(activation, now) : kUnknown, gradient);
    const bool is_full = activation <= now && !fits;
    if (is_full || next == kUnknown || is_worth_filling(r, next - now)) weight_gradient(r, now);
  }

  bool is_worth_filling(std::size_t r, double gap) const {
    if (gap >= rule_.least_gap * costs(r).backward_weight) return true;
    if (!rule_.levels_idle_time) return false;
    const double idle = ranks_[r].idle + gap;
    return std::all_of(ranks_.begin(), ranks_.end(),
                       [&](const GapFilledRank& other) { return other.idle <= idle; });
  }

  // Whether a forward pass of the warmup would delay the first gradient too much.
  bool is_late(std::size_t r, double now) const {
    const GapFilledRank& rank = ranks_[r];
    if (rank.input > 0 || rank.forward == 0) return false;
    const double forward = costs(r).forward;
    return now + forward > rank.first_gradient + rule_.warmup_delay * forward + kRounding * now;
  }

  void forward(std::size_t r, double now) {
    const bool is_last = r + 1 == ranks_.size();
    GapFilledRank& rank = ranks_[r];
    run_pass(r, pass(ActionKind::kForward, 0, rank.forward), now, costs(r).forward);
    rank.held += 1.0;
    rank.is_forward_turn = rank.input == 0 && !is_last;  // still in the warmup
    if (is_last) {
      rank.gradient[index(rank.forward)] = rank.free_at;
    } else {
      deliver(r + 1, ranks_[r + 1].activation[index(rank.forward)], rank.free_at + message_);
    }
    ++rank.forward;
  }

  void input_gradient(std::size_t r, double now) {
    GapFilledRank& rank = ranks_[r];
    run_pass(r, pass(ActionKind::kBackwardInput, 0, rank.input), now, costs(r).backward_input);
    rank.held -= 1.0 - kKeptForWeightGradient;
    rank.is_forward_turn = true;
    if (r > 0) deliver(r - 1, ranks_[r - 1].gradient[index(rank.input)], rank.free_at + message_);
    ++rank.input;
  }

  void weight_gradient(std::size_t r, double now) {
    GapFilledRank& rank = ranks_[r];
    run_pass(r, pass(ActionKind::kBackwardWeight, 0, rank.weight), now, costs(r).backward_weight);
    rank.held -= kKeptForWeightGradient;
    ++rank.weight;
  }

  void run_pass(std::size_t r, const Action& action, double now, double duration) {
    GapFilledRank& rank = ranks_[r];
    if (!rank.order.empty()) rank.idle += now - rank.free_at;
    rank.order.push_back(action);
    rank.free_at = now + duration;
    wake(r, rank.free_at);
  }

  void deliver(std::size_t to, double& arrival, double time) {
    arrival = time;
    wake(to, time);
  }

  const Costs& costs_;
  const double message_;
  const int microbatches_;
  const double memory_limit_;
  const GapFillingRule rule_;
  std::vector<GapFilledRank> ranks_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
};

}  // namespace

std::optional<ActionLists> gap_filling_passes(const ScheduleRequest& request, double memory_limit,
                                              const GapFillingRule& rule) {
  return GapFilling(request, memory_limit, rule).run();
}

}  // namespace phalanx
