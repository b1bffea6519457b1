#include "phalanx/pipeline/lowering.h"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <tuple>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/pipeline/replay.h"

namespace phalanx {
namespace {

// What passes hand to each other.
class Messages {
 public:
  explicit Messages(const Placement& placement) : placement_(placement) {}

  // What a pass hands on: a send, or a hand-over within its rank.
  std::optional<Action> outgoing(int rank, const Action& pass) const {
    const int stage = placement_.stage(rank, pass.chunk);
    const int reader = stage + (pass.kind == ActionKind::kForward ? 1 : -1);
    if (pass.kind == ActionKind::kBackwardWeight || !exists(reader)) return std::nullopt;
    const int direction = placement_.direction(pass.chunk);
    const int peer = placement_.rank(reader, direction);
    const bool local = peer == rank;
    return Action{.kind = local ? ActionKind::kHandOver : ActionKind::kSend,
                  .payload = payload_of(pass),
                  .chunk = pass.chunk,
                  .microbatch = pass.microbatch,
                  .peer = local ? placement_.chunk(reader, direction) : peer,
                  .source_stage = key(stage, direction)};
  }

  // The receive before a pass of what another rank makes for it.
  std::optional<Action> incoming(int rank, const Action& pass) const {
    const int stage = placement_.stage(rank, pass.chunk);
    const int source = stage - (pass.kind == ActionKind::kForward ? 1 : -1);
    if (pass.kind == ActionKind::kBackwardWeight || !exists(source)) return std::nullopt;
    const int direction = placement_.direction(pass.chunk);
    const int peer = placement_.rank(source, direction);
    if (peer == rank) return std::nullopt;
    return Action{.kind = ActionKind::kReceive,
                  .payload = payload_of(pass),
                  .chunk = pass.chunk,
                  .microbatch = pass.microbatch,
                  .peer = peer,
                  .source_stage = key(source, direction)};
  }

  // The other end of a send.
  Action receive_of(int sender, const Action& send) const {
    const int direction = placement_.direction(send.chunk);
    const int stage = placement_.stage(sender, send.chunk);
    const int reader = stage + (send.payload == Payload::kActivation ? 1 : -1);
    Action receive = send;
    receive.kind = ActionKind::kReceive;
    receive.chunk = placement_.chunk(reader, direction);
    receive.peer = sender;
    return receive;
  }

 private:
  static Payload payload_of(const Action& pass) {
    return pass.kind == ActionKind::kForward ? Payload::kActivation : Payload::kGradient;
  }
  bool exists(int stage) const { return stage >= 0 && stage < placement_.stages(); }
  int key(int stage, int direction) const { return stage + direction * placement_.stages(); }

  const Placement& placement_;
};

// An end of a message in a rank's list.
struct MessageEvent {
  double time = 0.0;
  Action action;
};

// In the total order; at one time in that of the names, which both ends share.
bool comes_before(const MessageEvent& a, const MessageEvent& b) {
  const auto order = [](const MessageEvent& event) {
    return std::tuple(event.time, event.action.payload, event.action.source_stage,
                      event.action.microbatch);
  };
  return order(a) < order(b);
}

struct PassTime {
  double begin = 0.0;
  double end = 0.0;
};

// One rank in simulated time: its passes in the order of its list, and ends of messages.
struct RankEvents {
  std::vector<PassTime> passes;
  std::vector<MessageEvent> messages;
};

// Nothing where a pass whose result is sent takes no time, so that times do not order the two.
std::optional<std::vector<RankEvents>> events_of(const Schedule& schedule, const Costs& costs) {
  const Messages messages(schedule.placement);
  std::vector<RankEvents> ranks(schedule.ranks.size());
  bool ordered = true;
  Replay replay(schedule, costs);
  const bool finished =
      replay.run([&](std::size_t rank, std::size_t index, double begin, double end) {
        ranks[rank].passes.push_back({begin, end});
        const auto sender = static_cast<int>(rank);
        const auto send = messages.outgoing(sender, schedule.ranks[rank][index]);
        if (!send || send->kind != ActionKind::kSend) return;
        ordered = ordered && begin < end;
        ranks[rank].messages.push_back({end, *send});
        ranks[static_cast<std::size_t>(send->peer)].messages.push_back(
            {end, messages.receive_of(sender, *send)});
      });
  PHALANX_CHECK(finished, "the ranks of schedule {} wait for each other", schedule.kind);
  if (!ordered) return std::nullopt;
  for (RankEvents& rank : ranks) std::ranges::sort(rank.messages, comes_before);
  return ranks;
}

// Writes one rank's program.
class ProgramWriter {
 public:
  // Passes between a send and the wait for its end.
  static constexpr std::int64_t kSendPasses = 2;

  void append(const Action& action) {
    actions_.push_back(action);
    if (is_pass(action.kind)) ++passes_;
    if (action.kind == ActionKind::kSend) sends_.push_back({actions_.size() - 1, passes_});
  }
  // Waits for the sends that lie far enough behind.
  void await_old_sends() {
    while (!sends_.empty() && sends_.front().passes + kSendPasses <= passes_) await_first();
  }
  void await_all_sends() {
    while (!sends_.empty()) await_first();
  }
  std::vector<Action> take() { return std::move(actions_); }

 private:
  struct Sent {
    std::size_t index = 0;
    std::int64_t passes = 0;
  };
  void await_first() {
    Action await = actions_[sends_.front().index];
    await.kind = ActionKind::kAwaitSend;
    actions_.push_back(await);
    sends_.pop_front();
  }

  std::vector<Action> actions_;
  std::int64_t passes_ = 0;
  std::deque<Sent> sends_;
};

// Passes with what stands behind them, and messages, in order of time: the ends of messages before
// a pass that begins at their time.
std::vector<Action> merged(const std::vector<Action>& list, int rank, const RankEvents& events,
                           const Messages& messages) {
  ProgramWriter program;
  auto message = events.messages.begin();
  const auto append_messages = [&](double until) {
    for (; message != events.messages.end() && message->time <= until; ++message) {
      program.append(message->action);
    }
  };
  auto time = events.passes.begin();
  for (auto action = list.begin(); action != list.end(); ++time) {
    append_messages(time->begin);
    program.append(*action);
    const auto handed = messages.outgoing(rank, *action);
    if (handed && handed->kind == ActionKind::kHandOver) program.append(*handed);
    append_messages(time->end);
    const auto next = std::find_if(action + 1, list.end(),
                                   [](const Action& other) { return is_pass(other.kind); });
    // Reductions begin, and only then the rank waits.
    for (++action; action != next && action->kind == ActionKind::kReduceGradients; ++action) {
      program.append(*action);
    }
    if (next == list.end()) {
      program.await_all_sends();
    } else {
      program.await_old_sends();
    }
    for (; action != next; ++action) program.append(*action);
  }
  return program.take();
}

Program program_with(const Schedule& schedule, std::vector<Action> actions) {
  return {.actions = std::move(actions),
          .chunks = schedule.placement.chunks(),
          .microbatches = schedule.microbatches_of(0),
          .forward_only = schedule.forward_only};
}

}  // namespace

std::vector<Program> lower(const Schedule& schedule, const Costs& costs) {
  const Messages messages(schedule.placement);
  std::optional<std::vector<RankEvents>> events = events_of(schedule, costs);
  // Any times give an order that is safe.
  if (!events) events = events_of(schedule, Costs{});
  std::vector<Program> programs;
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    programs.push_back(program_with(
        schedule, merged(schedule.ranks[rank], static_cast<int>(rank), (*events)[rank], messages)));
  }
  return programs;
}

std::vector<Program> lower_at_consumer(const Schedule& schedule) {
  const Messages messages(schedule.placement);
  std::vector<Program> programs;
  for (int rank = 0; rank < schedule.placement.ranks(); ++rank) {
    ProgramWriter program;
    for (const Action& action : schedule.ranks[static_cast<std::size_t>(rank)]) {
      if (!is_pass(action.kind)) {
        program.append(action);
        continue;
      }
      if (const auto receive = messages.incoming(rank, action)) program.append(*receive);
      program.append(action);
      if (const auto handed = messages.outgoing(rank, action)) program.append(*handed);
    }
    program.await_all_sends();
    programs.push_back(program_with(schedule, program.take()));
  }
  return programs;
}

}  // namespace phalanx
