#include "phalanx/clock/program_clock.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>

#include "phalanx/base/error.h"
#include "phalanx/pipeline/timekeeper.h"

namespace phalanx {

std::string_view name_of(TimePart part) {
  static constexpr std::array<std::string_view, kTimeParts> kNames = {
      "products", "attention", "memory", "tp",        "cp",   "ep",
      "pp",       "dp",        "bubble", "optimizer", "host", "disk"};
  return kNames.at(static_cast<std::size_t>(part));
}

int ClockedStep::busiest_rank() const {
  const auto idle = [this](std::size_t rank) {
    return parts[rank][static_cast<std::size_t>(TimePart::kBubble)] +
           parts[rank][static_cast<std::size_t>(TimePart::kPipeline)];
  };
  std::size_t busiest = 0;
  for (std::size_t rank = 1; rank < parts.size(); ++rank) {
    if (idle(rank) < idle(busiest)) busiest = rank;
  }
  return static_cast<int>(busiest);
}

namespace {

constexpr double kUnknown = -1.0;
// A wait of less, as a share of the time, comes of rounding.
constexpr double kRounding = 1e-13;

// Why a rank could not go on before a time: the rank and the time from which it follows.
struct Cause {
  int rank = 0;
  double time = 0.0;
};

// A message that has begun, until it has been waited for.
struct Begun {
  double begin = 0.0;
  double done = kUnknown;
  double seconds = 0.0;  // that it moves
  double slows = 0.0;
  TimePart part = TimePart::kMemory;
  Cause cause;
  int meeting = -1;  // where it is not done yet: of which meeting,
  int number = 0;    // and which of that
};

// A message from one rank of the pipeline to another.
struct Message {
  double sent = kUnknown;
  double received = kUnknown;  // when its receive began
  double seconds = 0.0;
  double start = kUnknown;
  TimedEvent done;
  int sender = 0;
  int receiver = 0;
};
using MessageId =
    std::tuple<int, Payload, int, int>;  // receiver, payload, source stage, microbatch

// One collective of several ranks of the pipeline.
struct Gathering {
  std::size_t missing = 0;
  double last = 0.0;  // when it starts: all have begun it, and their channels are free
  Cause cause = {};   // the rank for which that is the last, when it begins
  TimedEvent done = {};
};

// A stretch of a rank's time.
struct Stretch {
  double begin = 0.0;
  double end = 0.0;
  std::size_t action = 0;
  std::optional<TimePart> waits_for;
  Cause cause;  // of a wait
};

class Clock {
 public:
  Clock(const std::vector<ClockRank>& ranks, const Meetings& meetings, MessageStart start)
      : ranks_(ranks),
        meetings_(meetings),
        start_(start),
        timekeeper_(ranks.size()),
        states_(ranks.size()) {
    gatherings_.resize(meetings.size());
    for (State& state : states_) state.counts.resize(meetings.size());
  }

  ClockedStep run() {
    timekeeper_.run([this](std::size_t rank) { advance(rank); });
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      PHALANX_CHECK(is_done(rank), "rank {} of the pipeline waits for ever at action {}", rank,
                    states_[rank].action);
    }
    return result();
  }

 private:
  struct State {
    bool began = false;      // what comes before the program is done
    std::size_t action = 0;  // in the program
    std::size_t event = 0;   // in the action
    bool entered = false;    // its input is there
    double entered_at = 0.0;
    std::map<int, Begun> begun;     // by token
    std::map<int, double> free_at;  // by channel
    std::vector<int> counts;        // by meeting: how many this rank has begun
    std::array<double, kTimeParts> parts = {};
    std::vector<Stretch> stretches;
    std::vector<TimedAction> passes;
  };

  bool is_done(std::size_t rank) const {
    return states_[rank].began && states_[rank].action == ranks_[rank].actions.size();
  }

  double& now(std::size_t rank) { return timekeeper_.now(rank); }
  double now(std::size_t rank) const { return timekeeper_.now(rank); }

  // Goes on until the rank waits for another one.
  void advance(std::size_t rank) {
    State& state = states_[rank];
    if (!state.began) {
      if (!run_events(rank, ranks_[rank].before)) return;
      state.began = true;
      state.event = 0;
    }
    while (state.action < ranks_[rank].actions.size()) {
      const Action& action = ranks_[rank].actions[state.action];
      const ClockAction& costs = ranks_[rank].distinct[ranks_[rank].numbers[state.action]];
      if (!state.entered) {
        if (!enter(rank, action)) return;
        state.entered = true;
        state.entered_at = now(rank);
      }
      if (!run_events(rank, costs.events)) return;
      leave(rank, action, costs);
    }
  }

  // Waits for what the action needs from other ranks; false while it is not there.
  bool enter(std::size_t rank, const Action& action) {
    switch (action.kind) {
      case ActionKind::kForward:
      case ActionKind::kBackward:
      case ActionKind::kBackwardInput:
        return await_input(rank, action);
      case ActionKind::kReceive: {
        Message& message = message_of(static_cast<int>(rank), action);
        message.received = now(rank);
        message.receiver = static_cast<int>(rank);
        settle(message);
        return true;
      }
      case ActionKind::kAwaitSend:
        return await_message(rank, message_of(action.peer, action));
      default:
        return true;
    }
  }

  void leave(std::size_t rank, const Action& action, const ClockAction& costs) {
    State& state = states_[rank];
    if (action.kind == ActionKind::kSend) {
      Message& message = message_of(action.peer, action);
      message.sent = now(rank);
      message.sender = static_cast<int>(rank);
      message.receiver = action.peer;
      message.seconds = costs.message_seconds;
      settle(message);
    }
    if (action.kind == ActionKind::kReceive) {
      // The pass that reads it waits for it.
      expected_[{static_cast<int>(rank), action.payload, action.chunk, action.microbatch}] =
          &message_of(static_cast<int>(rank), action);
    }
    if (const double late = state.entered_at + costs.host_seconds - now(rank); late > 0.0) {
      spend(rank, TimePart::kHost, late);
    }
    if (is_pass(action.kind)) state.passes.push_back({action, state.entered_at, now(rank)});
    ++state.action;
    state.event = 0;
    state.entered = false;
  }

  // Runs events until one waits for another rank. Returns whether none does.
  bool run_events(std::size_t rank, const std::vector<ClockEvent>& events) {
    for (std::size_t& at = states_[rank].event; at < events.size(); ++at) {
      const ClockEvent& event = events[at];
      switch (event.kind) {
        case ClockEvent::Kind::kCompute:
          spend(rank, event.part, event.seconds);
          break;
        case ClockEvent::Kind::kBegin:
          begin(rank, event);
          break;
        case ClockEvent::Kind::kAwait:
          if (!await(rank, event)) return false;
          break;
      }
    }
    return true;
  }

  void spend(std::size_t rank, TimePart part, double seconds) {
    if (seconds <= 0.0) return;
    State& state = states_[rank];
    state.parts[static_cast<std::size_t>(part)] += seconds;
    add_stretch(state, {now(rank), now(rank) + seconds, state.action, std::nullopt, {}});
    now(rank) += seconds;
  }

  // Work of one action that follows work of the same action is one stretch.
  static void add_stretch(State& state, const Stretch& stretch) {
    if (!state.stretches.empty()) {
      Stretch& last = state.stretches.back();
      if (!last.waits_for && !stretch.waits_for && last.action == stretch.action) {
        last.end = stretch.end;
        return;
      }
    }
    state.stretches.push_back(stretch);
  }

  // Goes on at `time`, which follows from the cause. Of the wait what the message itself takes
  // counts as traffic, the rest as a wait for the other rank's work.
  void wait_until(std::size_t rank, double time, TimePart part, double moves, Cause cause) {
    State& state = states_[rank];
    const double wait = time - now(rank);
    if (wait <= kRounding * time) return;
    const double traffic = std::min(wait, moves);
    state.parts[static_cast<std::size_t>(part)] += traffic;
    state.parts[static_cast<std::size_t>(TimePart::kBubble)] += wait - traffic;
    state.stretches.push_back({now(rank), time, state.action, part, cause});
    now(rank) = time;
  }

  void begin(std::size_t rank, const ClockEvent& event) {
    State& state = states_[rank];
    Begun begun{.begin = now(rank),
                .seconds = event.seconds,
                .slows = event.slows,
                .part = event.part,
                .cause = {static_cast<int>(rank), now(rank)},
                .meeting = event.meeting};
    double& free_at = state.free_at[event.channel];
    const double start = std::max(now(rank), free_at);
    if (event.meeting < 0) {
      begun.done = start + event.seconds;
      free_at = begun.done;
    } else {
      const auto meeting = static_cast<std::size_t>(event.meeting);
      begun.number = state.counts[meeting]++;
      meet(rank, meeting, begun.number, start, event.seconds);
    }
    state.begun[event.token] = begun;
  }

  void meet(std::size_t rank, std::size_t meeting, int number, double start, double seconds) {
    std::vector<Gathering>& all = gatherings_[meeting];
    if (all.size() <= static_cast<std::size_t>(number)) {
      all.resize(static_cast<std::size_t>(number) + 1, {.missing = meetings_[meeting].size()});
    }
    Gathering& gathering = all[static_cast<std::size_t>(number)];
    if (start >= gathering.last) {
      gathering.last = start;
      gathering.cause = {static_cast<int>(rank), now(rank)};
    }
    if (--gathering.missing == 0) {
      timekeeper_.happen(gathering.done, gathering.last + seconds);
    }
  }

  // If not, the rank goes on when it has.
  bool has_happened(std::size_t rank, TimedEvent& event) {
    if (!event.has_happened()) timekeeper_.wait(rank, event);
    return event.has_happened();
  }

  bool await(std::size_t rank, const ClockEvent& event) {
    State& state = states_[rank];
    const auto found = state.begun.find(event.token);
    if (found == state.begun.end()) return true;  // it began before this step
    Begun& begun = found->second;
    if (begun.meeting >= 0) {
      Gathering& gathering = gatherings_[static_cast<std::size_t>(begun.meeting)]
                                        [static_cast<std::size_t>(begun.number)];
      if (!has_happened(rank, gathering.done)) return false;
      begun.done = gathering.done.time;
      begun.cause = gathering.cause;
    }
    const double exposed = std::clamp(begun.done - now(rank), 0.0, begun.seconds);
    const double hidden = std::min(begun.seconds, now(rank) - begun.begin);
    wait_until(rank, begun.done, begun.part, begun.seconds, begun.cause);
    // What is computed beside a message is slower.
    if (begun.slows > 0.0) {
      spend(rank, begun.part, begun.slows * std::min(hidden, begun.seconds - exposed));
    }
    state.begun.erase(found);
    return true;
  }

  Message& message_of(int receiver, const Action& action) {
    return messages_[{receiver, action.payload, action.source_stage, action.microbatch}];
  }

  // Once it is known when a message starts.
  void settle(Message& message) {
    if (message.sent == kUnknown || message.done.has_happened()) return;
    if (start_ == MessageStart::kRendezvous && message.received == kUnknown) return;
    double start = message.sent;
    if (start_ == MessageStart::kRendezvous) {
      double& free_at = links_[{message.sender, message.receiver}];
      start = std::max({start, message.received, free_at});
      free_at = start + message.seconds;
    }
    message.start = start;
    timekeeper_.happen(message.done, start + message.seconds);
  }

  bool await_message(std::size_t rank, Message& message) {
    if (!has_happened(rank, message.done)) return false;
    // It follows from the later of its send and its receive.
    const bool sender_is_late = message.received == kUnknown || message.sent >= message.received;
    const Cause cause = {sender_is_late ? message.sender : message.receiver, message.start};
    wait_until(rank, message.done.time, TimePart::kPipeline, message.seconds, cause);
    return true;
  }

  bool await_input(std::size_t rank, const Action& pass) {
    const Payload payload =
        pass.kind == ActionKind::kForward ? Payload::kActivation : Payload::kGradient;
    const auto found =
        expected_.find({static_cast<int>(rank), payload, pass.chunk, pass.microbatch});
    if (found == expected_.end()) return true;
    if (!await_message(rank, *found->second)) return false;
    expected_.erase(found);
    return true;
  }

  ClockedStep result() const {
    ClockedStep step;
    int last = 0;
    for (std::size_t rank = 0; rank < states_.size(); ++rank) {
      if (now(rank) > step.seconds) last = static_cast<int>(rank);
      step.seconds = std::max(step.seconds, now(rank));
    }
    for (std::size_t rank = 0; rank < states_.size(); ++rank) {
      step.parts.push_back(states_[rank].parts);
      step.parts.back()[static_cast<std::size_t>(TimePart::kBubble)] += step.seconds - now(rank);
      step.timeline.push_back(states_[rank].passes);
    }
    step.critical_path = critical_path(last);
    return step;
  }

  // Back from the end of the step: a stretch follows from the one before it, a wait from its cause.
  std::vector<CriticalStep> critical_path(int rank) const {
    std::vector<CriticalStep> path;
    double time = now(static_cast<std::size_t>(rank));
    while (time > 0.0) {
      const State& state = states_[static_cast<std::size_t>(rank)];
      // The stretch that ends at this time, or in which it is.
      const auto after = std::ranges::lower_bound(state.stretches, time, {}, &Stretch::end);
      if (after == state.stretches.end()) break;
      const auto& actions = ranks_[static_cast<std::size_t>(rank)].actions;
      const Action action = after->action < actions.size() ? actions[after->action] : Action{};
      if (!after->waits_for) {
        path.push_back({rank, action, std::nullopt, time - after->begin});
        time = after->begin;
        continue;
      }
      path.push_back({rank, action, after->waits_for, time - after->cause.time});
      time = after->cause.time;
      rank = after->cause.rank;
    }
    std::ranges::reverse(path);
    return by_action(path);
  }

  // What a rank does in a row at one action: its work together, and its waits by what they are for.
  static std::vector<CriticalStep> by_action(const std::vector<CriticalStep>& path) {
    std::vector<CriticalStep> merged;
    std::size_t first = 0;  // of the action
    for (const CriticalStep& step : path) {
      if (!merged.empty() &&
          (merged.back().rank != step.rank || merged.back().action != step.action)) {
        first = merged.size();
      }
      const auto alike = std::find_if(
          merged.begin() + static_cast<std::ptrdiff_t>(first), merged.end(),
          [&](const CriticalStep& other) { return other.waits_for == step.waits_for; });
      if (alike == merged.end()) {
        merged.push_back(step);
      } else {
        alike->seconds += step.seconds;
      }
    }
    return merged;
  }

  const std::vector<ClockRank>& ranks_;
  const Meetings& meetings_;
  MessageStart start_;
  Timekeeper timekeeper_;
  std::vector<State> states_;
  std::map<MessageId, Message> messages_;
  // By receiver, payload, the chunk that reads and the microbatch: what a pass waits for.
  std::map<std::tuple<int, Payload, int, int>, Message*> expected_;
  std::map<std::pair<int, int>, double> links_;     // when they are free, by sender and receiver
  std::vector<std::vector<Gathering>> gatherings_;  // by meeting
};

}  // namespace

ClockedStep clock_programs(const std::vector<ClockRank>& ranks, const Meetings& meetings,
                           MessageStart start) {
  return Clock(ranks, meetings, start).run();
}

}  // namespace phalanx
