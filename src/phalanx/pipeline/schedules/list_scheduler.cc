#include "phalanx/pipeline/schedules/list_scheduler.h"

#include <algorithm>
#include <optional>
#include <queue>
#include <tuple>

namespace phalanx {
namespace {

// A pass that is ready, smallest key first.
struct Ready {
  std::tuple<int, int> key;
  Action action;
  friend bool operator<(const Ready& a, const Ready& b) { return a.key > b.key; }
};

// A rank in simulated time.
struct ScheduledRank {
  std::priority_queue<Ready> forward;
  std::priority_queue<Ready> backward;
  std::optional<Action> running;
  int end = 0;  // of the running pass
  int held = 0;
  std::vector<Action> order;
};

class ListScheduler {
 public:
  ListScheduler(const Placement& placement, int microbatches, const ListRule& rule)
      : placement_(placement), rule_(rule), ranks_(static_cast<std::size_t>(placement.ranks())) {
    const int directions = placement.directions();
    for (int d = 0; d < directions; ++d) {
      const int own = (microbatches + directions - 1 - d) / directions;
      for (int i = 0; i < own; ++i) offer(ActionKind::kForward, 0, d, i);
    }
    left_ = microbatches * placement.stages() * (rule.forward_only ? 1 : 2);
    const auto passes_of_rank = static_cast<std::size_t>(left_ / placement.ranks());
    for (ScheduledRank& rank : ranks_) rank.order.reserve(passes_of_rank);
  }

  ListSchedule run() {
    for (int now = 0; left_ > 0; ++now) {
      for (ScheduledRank& rank : ranks_) {
        if (rank.running && rank.end == now) finish(rank);
      }
      for (ScheduledRank& rank : ranks_) {
        if (!rank.running) begin(rank, now);
      }
    }
    for (ScheduledRank& rank : ranks_) {
      result_.makespan = std::max(result_.makespan, rank.end);
      result_.ranks.push_back(std::move(rank.order));
    }
    return std::move(result_);
  }

 private:
  void offer(ActionKind kind, int stage, int direction, int microbatch) {
    ScheduledRank& rank = ranks_[static_cast<std::size_t>(placement_.rank(stage, direction))];
    const Action action = pass(kind, placement_.chunk(stage, direction), microbatch);
    if (kind == ActionKind::kForward) {
      rank.forward.push({{-stage, microbatch}, action});
    } else if (rule_.backward_order == ListRule::BackwardOrder::kDeepestStage) {
      rank.backward.push({{-stage, microbatch}, action});
    } else {
      rank.backward.push({{microbatch, -stage}, action});
    }
  }

  void finish(ScheduledRank& rank) {
    const Action done = *rank.running;
    rank.running.reset();
    const int index = static_cast<int>(&rank - ranks_.data());
    const int stage = placement_.stage(index, done.chunk);
    const int direction = placement_.direction(done.chunk);
    if (done.kind == ActionKind::kBackward) {
      if (stage > 0) offer(ActionKind::kBackward, stage - 1, direction, done.microbatch);
    } else if (stage < placement_.stages() - 1) {
      offer(ActionKind::kForward, stage + 1, direction, done.microbatch);
    } else if (!rule_.forward_only) {
      offer(ActionKind::kBackward, stage, direction, done.microbatch);
    }
  }

  bool takes_backward(const ScheduledRank& rank) const {
    if (rank.forward.empty() || rank.backward.empty()) return rank.forward.empty();
    return rule_.prefer == ListRule::Prefer::kBackward ||
           rank.order.back().kind == ActionKind::kForward;
  }

  void begin(ScheduledRank& rank, int now) {
    if (rank.forward.empty() && rank.backward.empty()) return;
    const bool backward = takes_backward(rank);
    std::priority_queue<Ready>& ready = backward ? rank.backward : rank.forward;
    rank.running = ready.top().action;
    ready.pop();
    rank.end = now + (backward ? 2 : 1);
    rank.held += backward ? -1 : 1;
    result_.peak = std::max(result_.peak, rank.held);
    rank.order.push_back(*rank.running);
    --left_;
  }

  const Placement& placement_;
  const ListRule rule_;
  std::vector<ScheduledRank> ranks_;
  int left_ = 0;  // passes that have not begun
  ListSchedule result_;
};

}  // namespace

ListSchedule list_schedule(const Placement& placement, int microbatches, const ListRule& rule) {
  return ListScheduler(placement, microbatches, rule).run();
}

}  // namespace phalanx
