#include "phalanx/clock/program_clock.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>

#include "phalanx/base/error.h"
#include "phalanx/clock/critical_path.h"
#include "phalanx/clock/flows.h"
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

// A wait of less, as a share of the time, comes of rounding.
constexpr double kRounding = 1e-13;

// A message of a group, or a flow of a file, that has begun, until it has been waited for.
struct Begun {
  double begin = 0.0;
  double slows = 0.0;
  TimePart part = TimePart::kMemory;
  FlowPtr flow;
};

// Of a message between ranks: receiver, payload, source stage, microbatch.
using MessageId = std::tuple<int, Payload, int, int>;

// The queues of a rank: its channels, then by the other rank what it sends and receives.
enum QueueKind : int { kChannel, kSends, kReceives };

class Clock {
 public:
  Clock(const std::vector<ClockRank>& ranks, const Meetings& meetings, MessageStart start)
      : ranks_(ranks),
        meetings_(meetings),
        start_(start),
        timekeeper_(ranks.size() + 1, Timekeeper::Order::kByTime),
        flows_(timekeeper_, ranks.size(), links_of(ranks)),
        states_(ranks.size()),
        gatherings_(meetings.size()) {
    for (State& state : states_) state.counts.resize(meetings.size());
  }

  ClockedStep run() {
    timekeeper_.run([this](std::size_t worker, double time) {
      if (worker < ranks_.size()) return advance(worker);
      flows_.go_on(time);
    });
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
    std::map<int, Begun> begun;       // by token
    std::vector<std::size_t> counts;  // by meeting: how many this rank has begun
    std::array<double, kTimeParts> parts = {};
    std::vector<Stretch> stretches;
    std::vector<TimedAction> passes;
  };

  bool is_done(std::size_t rank) const {
    return states_[rank].began && states_[rank].action == ranks_[rank].actions.size();
  }

  double& now(std::size_t rank) { return timekeeper_.now(rank); }
  double now(std::size_t rank) const { return timekeeper_.now(rank); }

  // Goes on until the rank waits.
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
      if (action.kind == ActionKind::kSend) send(rank, action, costs.message);
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
      case ActionKind::kReceive:
        receive(rank, action);
        return true;
      case ActionKind::kAwaitSend:
        return await_send(rank, action);
      default:
        return true;
    }
  }

  void leave(std::size_t rank, const Action& action, const ClockAction& costs) {
    State& state = states_[rank];
    if (const double late = state.entered_at + costs.host_seconds - now(rank); late > 0.0) {
      spend(rank, TimePart::kHost, late);
    }
    if (is_pass(action.kind)) state.passes.push_back({action, state.entered_at, now(rank)});
    ++state.action;
    state.event = 0;
    state.entered = false;
  }

  // Runs events until one waits. Returns whether none does.
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

  // Goes on when the flow is done; false while it is not known when. What is after the begin of
  // its last member counts as traffic, what is before as a wait for that rank's work.
  bool wait_for(std::size_t rank, Flow& flow, TimePart part) {
    if (!flow.done.has_happened()) {
      timekeeper_.wait(rank, flow.done);
      return false;
    }
    const double done = flow.done.time;
    const double wait = done - now(rank);
    if (wait <= kRounding * done) return true;
    State& state = states_[rank];
    const double traffic = std::min(wait, done - flow.last_begin);
    state.parts[static_cast<std::size_t>(part)] += traffic;
    state.parts[static_cast<std::size_t>(TimePart::kBubble)] += wait - traffic;
    state.stretches.push_back(
        {now(rank), done, state.action, part, {flow.last_member, flow.last_begin}});
    now(rank) = done;
    return true;
  }

  void begin(std::size_t rank, const ClockEvent& event) {
    State& state = states_[rank];
    const int number = static_cast<int>(rank);
    const FlowPtr flow = event.meeting < 0
                             ? std::make_shared<Flow>()
                             : gathering(static_cast<std::size_t>(event.meeting), state);
    flow->seconds = event.cost.seconds;
    flow->latency = event.cost.latency;
    add_links(*flow, rank, event.cost.link, true, true);
    state.begun[event.token] = {now(rank), event.slows, event.part, flow};
    flows_.begin(number, {number, kChannel, event.channel}, flow);
  }

  // What this rank begins next in the meeting.
  FlowPtr gathering(std::size_t meeting, State& state) {
    std::vector<FlowPtr>& all = gatherings_[meeting];
    const std::size_t number = state.counts[meeting]++;
    if (number == all.size()) {
      all.push_back(std::make_shared<Flow>());
      all.back()->missing = meetings_[meeting].size();
    }
    return all[number];
  }

  bool await(std::size_t rank, const ClockEvent& event) {
    State& state = states_[rank];
    const auto found = state.begun.find(event.token);
    if (found == state.begun.end()) return true;  // it began before this step
    const Begun& begun = found->second;
    const double reached = now(rank);
    if (!wait_for(rank, *begun.flow, begun.part)) return false;
    // What is computed beside a message is slower.
    if (begun.slows > 0.0) {
      const double seconds = begun.flow->seconds;
      const double exposed = std::clamp(begun.flow->done.time - reached, 0.0, seconds);
      const double hidden = std::min(seconds, reached - begun.begin);
      spend(rank, begun.part, begun.slows * std::min(hidden, seconds - exposed));
    }
    state.begun.erase(found);
    return true;
  }

  static MessageId id_of(int receiver, const Action& action) {
    return {receiver, action.payload, action.source_stage, action.microbatch};
  }
  FlowPtr& message_of(int receiver, const Action& action) {
    FlowPtr& message = messages_[id_of(receiver, action)];
    if (message == nullptr) {
      message = std::make_shared<Flow>();
      message->missing = 2;
    }
    return message;
  }

  void send(std::size_t rank, const Action& action, const FlowCost& cost) {
    const FlowPtr& message = message_of(action.peer, action);
    const int sender = static_cast<int>(rank);
    message->seconds = cost.seconds;
    message->latency = cost.latency;
    if (start_ == MessageStart::kBuffered) {
      message->last_member = sender;
      message->last_begin = now(rank);
      flows_.start(message, now(rank));
      return;
    }
    add_links(*message, rank, cost.link, true, false);
    add_links(*message, static_cast<std::size_t>(action.peer), cost.link, false, true);
    flows_.begin(sender, {sender, kSends, action.peer}, message);
  }

  void receive(std::size_t rank, const Action& action) {
    const int receiver = static_cast<int>(rank);
    const FlowPtr& message = message_of(receiver, action);
    // The pass that reads it waits for it.
    expected_[{receiver, action.payload, action.chunk, action.microbatch}] = message;
    if (start_ == MessageStart::kRendezvous) {
      flows_.begin(receiver, {receiver, kReceives, action.peer}, message);
    }
  }

  bool await_message(std::size_t rank, const FlowPtr& message) {
    return wait_for(rank, *message, TimePart::kPipeline);
  }

  bool await_send(std::size_t rank, const Action& action) {
    const auto found = messages_.find(id_of(action.peer, action));
    if (!await_message(rank, found->second)) return false;
    // It has moved, so the other rank has begun it, too, and knows it by the pass that reads it.
    if (start_ == MessageStart::kRendezvous) messages_.erase(found);
    return true;
  }

  bool await_input(std::size_t rank, const Action& pass) {
    const Payload payload =
        pass.kind == ActionKind::kForward ? Payload::kActivation : Payload::kGradient;
    const auto found =
        expected_.find({static_cast<int>(rank), payload, pass.chunk, pass.microbatch});
    if (found == expected_.end()) return true;
    if (!await_message(rank, found->second)) return false;
    expected_.erase(found);
    return true;
  }

  // The links: of each rank that of its device, out and in, and its share of the cards, out and in;
  // then the disks of nodes.
  static constexpr std::size_t kLinksOfRank = 4;
  static std::size_t links_of(const std::vector<ClockRank>& ranks) {
    int nodes = 0;
    for (const ClockRank& rank : ranks) nodes = std::max(nodes, rank.node + 1);
    return kLinksOfRank * ranks.size() + static_cast<std::size_t>(nodes);
  }
  std::size_t disk_of(const ClockRank& rank) const {
    return kLinksOfRank * ranks_.size() + static_cast<std::size_t>(rank.node);
  }
  void add_links(Flow& flow, std::size_t rank, LinkKind kind, bool out, bool in) const {
    if (kind == LinkKind::kOwn) return;
    if (kind == LinkKind::kDisk) {
      flow.links.push_back(static_cast<int>(disk_of(ranks_[rank])));
      return;
    }
    flow.links.reserve(2);
    const auto first = static_cast<int>(kLinksOfRank * rank) + (kind == LinkKind::kCards ? 2 : 0);
    if (out) flow.links.push_back(first);
    if (in) flow.links.push_back(first + 1);
  }

  std::vector<double> disk_goes_on(double end) const {
    std::map<int, int> ranks_of_node;
    for (const ClockRank& rank : ranks_) ++ranks_of_node[rank.node];
    std::vector<double> seconds;
    for (const ClockRank& rank : ranks_) {
      const double last = flows_.last_done(disk_of(rank));
      seconds.push_back(std::max(0.0, last - end) / ranks_of_node[rank.node]);
    }
    return seconds;
  }

  ClockedStep result() {
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
    step.disk_goes_on = disk_goes_on(step.seconds);
    std::vector<std::vector<Stretch>> stretches;
    for (State& state : states_) stretches.push_back(std::move(state.stretches));
    step.critical_path = critical_path(stretches, ranks_, last);
    return step;
  }

  const std::vector<ClockRank>& ranks_;
  const Meetings& meetings_;
  MessageStart start_;
  Timekeeper timekeeper_;
  Flows flows_;
  std::vector<State> states_;
  std::map<MessageId, FlowPtr> messages_;
  // By receiver, payload, the chunk that reads and the microbatch: what a pass waits for.
  std::map<std::tuple<int, Payload, int, int>, FlowPtr> expected_;
  std::vector<std::vector<FlowPtr>> gatherings_;  // by meeting
};

}  // namespace

ClockedStep clock_programs(const std::vector<ClockRank>& ranks, const Meetings& meetings,
                           MessageStart start) {
  return Clock(ranks, meetings, start).run();
}

ClockedStep clock_repeated(std::vector<ClockRank> ranks, const Meetings& meetings) {
  ClockedStep first = clock_programs(ranks, meetings);
  if (std::ranges::all_of(first.disk_goes_on, [](double seconds) { return seconds <= 0.0; })) {
    return first;
  }
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const FlowCost cost = {.seconds = first.disk_goes_on[rank], .link = LinkKind::kDisk};
    ranks[rank].before.insert(ranks[rank].before.begin(), {.kind = ClockEvent::Kind::kBegin,
                                                           .part = TimePart::kDisk,
                                                           .cost = cost,
                                                           .token = -1,
                                                           .channel = kDiskChannel});
  }
  return clock_programs(ranks, meetings);
}

}  // namespace phalanx
