#include "phalanx/pipeline/lowering.h"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <tuple>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/machine.h"
#include "phalanx/base/threads.h"
#include "phalanx/pipeline/simulator.h"

namespace phalanx {
namespace {

// With fewer passes, writing the programs takes less time than starting threads.
constexpr std::size_t kPassesWorthThreads = 100'000;

// The messages between passes.
class Messages {
 public:
  explicit Messages(const Schedule& schedule)
      : placement_(schedule.placement), first_trained_stage_(schedule.first_trained_stage) {}

  // The message after a pass: a send, or a hand-over within its rank.
  std::optional<Action> outgoing(int rank, const Action& pass) const {
    const int stage = placement_.stage(rank, pass.chunk);
    const int reader = stage + (pass.kind == ActionKind::kForward ? 1 : -1);
    if (!exists(reader) || !is_sent(pass, reader)) return std::nullopt;
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

  // The receive of a pass's input, if another rank makes it.
  std::optional<Action> incoming(int rank, const Action& pass) const {
    const int stage = placement_.stage(rank, pass.chunk);
    const int source = stage - (pass.kind == ActionKind::kForward ? 1 : -1);
    if (!exists(source) || !is_sent(pass, stage)) return std::nullopt;
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

  // The other ranks that a rank exchanges messages with.
  std::vector<int> peers_of(int rank) const {
    std::vector<int> peers;
    for (int chunk = 0; chunk < placement_.chunks(); ++chunk) {
      const int stage = placement_.stage(rank, chunk);
      for (const int neighbour : {stage - 1, stage + 1}) {
        if (!exists(neighbour)) continue;
        const int peer = placement_.rank(neighbour, placement_.direction(chunk));
        if (peer != rank && !std::ranges::count(peers, peer)) peers.push_back(peer);
      }
    }
    return peers;
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
  // Whether a pass has a result for the reader's stage.
  bool is_sent(const Action& pass, int reader) const {
    if (pass.kind == ActionKind::kForward) return true;
    return pass.kind != ActionKind::kBackwardWeight && reader >= first_trained_stage_;
  }
  int key(int stage, int direction) const { return stage + direction * placement_.stages(); }

  const Placement& placement_;
  int first_trained_stage_;
};

// An end of a message in a rank's list.
struct MessageEvent {
  double time = 0.0;
  Action action;
};

// The total order: by time, and at equal times by name, which both ends share.
bool comes_before(const MessageEvent& a, const MessageEvent& b) {
  const auto order = [](const MessageEvent& event) {
    return std::tuple(event.time, event.action.payload, event.action.source_stage,
                      event.action.microbatch);
  };
  return order(a) < order(b);
}

// Whether every pass whose result is sent takes some time: else times would not order the two.
bool orders_messages(const Timeline& timeline, const Messages& messages) {
  for (int rank = 0; const std::vector<TimedAction>& passes : timeline) {
    for (const TimedAction& pass : passes) {
      if (pass.begin < pass.end) continue;
      const auto send = messages.outgoing(rank, pass.action);
      if (send && send->kind == ActionKind::kSend) return false;
    }
    ++rank;
  }
  return true;
}

// The ends of messages in a rank's list, in the total order. Its own sends, and the sends of each
// peer to it, are in order already.
std::vector<MessageEvent> events_of(const Timeline& timeline, int rank, const Messages& messages) {
  std::vector<MessageEvent> events;
  const auto add = [&](int sender) {
    const auto before = static_cast<std::ptrdiff_t>(events.size());
    for (const auto& [pass, begin, end] : timeline[static_cast<std::size_t>(sender)]) {
      const auto send = messages.outgoing(sender, pass);
      if (!send || send->kind != ActionKind::kSend) continue;
      if (sender == rank) {
        events.push_back({end, *send});
      } else if (send->peer == rank) {
        events.push_back({end, messages.receive_of(sender, *send)});
      }
    }
    std::inplace_merge(events.begin(), events.begin() + before, events.end(), comes_before);
  };
  add(rank);
  for (const int peer : messages.peers_of(rank)) add(peer);
  return events;
}

// Writes one rank's program.
class ProgramWriter {
 public:
  explicit ProgramWriter(std::size_t actions = 0) { actions_.reserve(actions); }

  // Passes between a send and the wait for its end.
  static constexpr std::int64_t kSendPasses = 2;

  void append(const Action& action) {
    actions_.push_back(action);
    if (is_pass(action.kind)) ++passes_;
    if (action.kind == ActionKind::kSend) sends_.push_back({actions_.size() - 1, passes_});
  }
  // Appends the awaits of sends that are far enough back.
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

// Writes passes, with the actions after them, and messages in order of time. Messages come before a
// pass that begins at the same time.
std::vector<Action> merged(const std::vector<Action>& list, int rank,
                           const std::vector<TimedAction>& times,
                           const std::vector<MessageEvent>& events, const Messages& messages) {
  const auto is_send = [](const MessageEvent& event) {
    return event.action.kind == ActionKind::kSend;
  };
  // Each send has an await.
  ProgramWriter program(list.size() + events.size() +
                        static_cast<std::size_t>(std::ranges::count_if(events, is_send)));
  auto message = events.begin();
  const auto append_messages = [&](double until) {
    for (; message != events.end() && message->time <= until; ++message) {
      program.append(message->action);
    }
  };
  auto time = times.begin();
  for (auto action = list.begin(); action != list.end(); ++time) {
    append_messages(time->begin);
    program.append(*action);
    const auto handed = messages.outgoing(rank, *action);
    if (handed && handed->kind == ActionKind::kHandOver) program.append(*handed);
    append_messages(time->end);
    const auto next = std::find_if(action + 1, list.end(),
                                   [](const Action& other) { return is_pass(other.kind); });
    // Reductions begin before the rank waits for messages.
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
  const Messages messages(schedule);
  Timeline timeline = timeline_of(schedule, costs);
  // The order is safe with any times.
  if (!orders_messages(timeline, messages)) timeline = timeline_of(schedule, Costs{});
  std::vector<Program> programs(schedule.ranks.size());
  const auto write = [&](std::size_t at) {
    const int rank = static_cast<int>(at);
    const auto events = events_of(timeline, rank, messages);
    programs[at] =
        program_with(schedule, merged(schedule.ranks[at], rank, timeline[at], events, messages));
  };
  std::size_t passes = 0;
  for (const std::vector<TimedAction>& of_rank : timeline) passes += of_rank.size();
  run_parallel(programs.size(), passes < kPassesWorthThreads ? 1 : usable_cores().count, write);
  return programs;
}

std::vector<Program> lower_at_consumer(const Schedule& schedule) {
  const Messages messages(schedule);
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
