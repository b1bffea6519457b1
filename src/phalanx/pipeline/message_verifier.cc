#include "phalanx/pipeline/message_verifier.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <memory>
#include <tuple>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/pipeline/message_links.h"

namespace phalanx {
namespace {

std::size_t index(int value) { return static_cast<std::size_t>(value); }

bool is_channel_end(const Action& action) {
  return action.kind == ActionKind::kSend || action.kind == ActionKind::kReceive;
}

// Runs all programs until none can continue. Subclasses decide when a rank gets past a message.
class Run {
 public:
  Run(std::span<const Program> programs, const MessageLinks& links)
      : programs_(programs), links_(links), positions_(programs.size(), 0) {}
  virtual ~Run() = default;

  std::optional<std::string> fault() {
    for (int rank = static_cast<int>(programs_.size()) - 1; rank >= 0; --rank) wake(rank);
    while (!awake_.empty()) {
      const int rank = awake_.back();
      awake_.pop_back();
      while (!finished(rank) && go_on(rank)) {
      }
    }
    std::vector<std::string> stuck;
    for (int rank = 0; rank < static_cast<int>(programs_.size()); ++rank) {
      if (!finished(rank)) stuck.push_back(fmt::format("r{}: {}", rank, waiting_at(rank)));
    }
    if (stuck.empty()) return std::nullopt;
    return fmt::format("the ranks wait for each other: {}", fmt::join(stuck, "; "));
  }

 protected:
  // Moves the rank's position past its action; false if the rank must wait.
  virtual bool go_on(int rank) = 0;
  virtual std::string waiting_at(int rank) const { return to_string(head(rank)); }

  const std::vector<Action>& list(int rank) const { return programs_[index(rank)].actions; }
  int& position(int rank) { return positions_[index(rank)]; }
  int position(int rank) const { return positions_[index(rank)]; }
  bool finished(int rank) const { return index(position(rank)) == list(rank).size(); }
  const Action& head(int rank) const { return list(rank)[index(position(rank))]; }
  int link(int rank, int place) const { return links_[index(rank)][index(place)]; }
  int ranks() const { return static_cast<int>(programs_.size()); }
  // Lets a rank try again.
  void wake(int rank) { awake_.push_back(rank); }

 private:
  std::span<const Program> programs_;
  const MessageLinks& links_;
  std::vector<int> positions_;
  std::vector<int> awake_;
};

// A rank starts the messages of a group together, and continues when all are complete. A message is
// complete when both ends have started. A group of one is a rendezvous.
class GroupRun : public Run {
 public:
  GroupRun(std::span<const Program> programs, const MessageLinks& links, bool adjacent)
      : Run(programs, links), adjacent_(adjacent), started_(programs.size(), 0) {}

 protected:
  bool go_on(int rank) override {
    const int begin = position(rank);
    if (!is_channel_end(head(rank))) {
      ++position(rank);
      return true;
    }
    int& started = started_[index(rank)];
    if (started <= begin) {
      started = group_end(rank, begin);
      for (int i = begin; i < started; ++i) {
        if (is_channel_end(list(rank)[index(i)])) wake(list(rank)[index(i)].peer);
      }
    }
    for (int i = begin; i < started; ++i) {
      const Action& action = list(rank)[index(i)];
      if (is_channel_end(action) && started_[index(action.peer)] <= link(rank, i)) return false;
    }
    position(rank) = started;
    return true;
  }

 private:
  int group_end(int rank, int begin) const {
    if (!adjacent_) return begin + 1;
    const auto& actions = list(rank);
    const auto end = std::find_if(actions.begin() + begin, actions.end(), [](const Action& action) {
      return is_pass(action.kind) || action.kind == ActionKind::kOptimizerStep;
    });
    return static_cast<int>(end - actions.begin());
  }

  bool adjacent_;
  std::vector<int> started_;  // by rank: all messages before this place
};

// A send waits for room in its channel, a receive for the message.
class BufferRun : public Run {
 public:
  BufferRun(std::span<const Program> programs, const MessageLinks& links, int capacity)
      : Run(programs, links),
        capacity_(capacity),
        buffered_(programs.size() * programs.size(), 0) {}

 protected:
  bool go_on(int rank) override {
    const Action& action = head(rank);
    if (action.kind == ActionKind::kSend) {
      int& buffered = buffered_[index(rank * ranks() + action.peer)];
      if (buffered >= capacity_) return false;
      ++buffered;
      wake(action.peer);
    } else if (action.kind == ActionKind::kReceive) {
      int& buffered = buffered_[index(action.peer * ranks() + rank)];
      if (buffered == 0) return false;
      --buffered;
      wake(action.peer);
    }
    ++position(rank);
    return true;
  }

 private:
  int capacity_;
  std::vector<int> buffered_;  // by (source, destination)
};

// Messages are put into queues without waiting. A message is complete when both ends have come to
// the front of their queues; passes wait for their inputs, awaits for their sends.
class QueueRun : public Run {
 public:
  QueueRun(std::span<const Program> programs, const MessageLinks& links, Transport transport)
      : Run(programs, links), transport_(transport) {
    for (const Program& program : programs) over_.emplace_back(program.actions.size(), false);
  }

 protected:
  bool go_on(int rank) override {
    const int place = position(rank);
    if (is_channel_end(head(rank))) {
      ++position(rank);
      Queue& queue = queue_of(rank, place);
      queue.places.push_back(place);
      advance(rank, queue);
      return true;
    }
    const int awaited = link(rank, place);
    if (awaited != kNoLink && !over_[index(rank)][index(awaited)]) return false;
    ++position(rank);
    return true;
  }

  std::string waiting_at(int rank) const override {
    const Action& action = head(rank);
    const Action& awaited = list(rank)[index(link(rank, position(rank)))];
    return fmt::format("{} waits for {}", to_string(action), to_string(awaited));
  }

 private:
  struct Queue {
    std::vector<int> places;
    std::size_t front = 0;
    bool empty() const { return front == places.size(); }
  };

  Queue& queue_of(int rank, int place) {
    const Action& action = list(rank)[index(place)];
    const int peer = transport_ == Transport::kRankQueue ? kNoLink : action.peer;
    const bool receives =
        transport_ == Transport::kDirectionQueue && action.kind == ActionKind::kReceive;
    return queues_[{rank, peer, receives}];
  }

  // Removes messages that are at the front of both ends' queues, beginning with this queue.
  void advance(int rank, Queue& queue) {
    std::vector<std::pair<int, Queue*>> changed = {{rank, &queue}};
    while (!changed.empty()) {
      auto& [own, own_queue] = changed.back();
      if (own_queue->empty()) {
        changed.pop_back();
        continue;
      }
      const int place = own_queue->places[own_queue->front];
      const int peer = list(own)[index(place)].peer;
      const int other = link(own, place);
      Queue& other_queue = queue_of(peer, other);
      if (other_queue.empty() || other_queue.places[other_queue.front] != other) {
        changed.pop_back();
        continue;
      }
      ++own_queue->front;
      ++other_queue.front;
      over_[index(own)][index(place)] = true;
      over_[index(peer)][index(other)] = true;
      wake(own);
      wake(peer);
      changed.emplace_back(peer, &other_queue);
    }
  }

  Transport transport_;
  std::map<std::tuple<int, int, bool>, Queue> queues_;  // by (rank, peer, receives)
  std::vector<std::vector<bool>> over_;                 // by rank and place
};

std::unique_ptr<Run> run_of(std::span<const Program> programs, const MessageLinks& links,
                            Transport transport, int capacity) {
  switch (transport) {
    case Transport::kBuffered:
      if (capacity > 0) return std::make_unique<BufferRun>(programs, links, capacity);
      return std::make_unique<GroupRun>(programs, links, false);
    case Transport::kRendezvous:
    case Transport::kGrouped:
      return std::make_unique<GroupRun>(programs, links, transport == Transport::kGrouped);
    case Transport::kRankQueue:
    case Transport::kPeerQueue:
    case Transport::kDirectionQueue:
      break;
  }
  return std::make_unique<QueueRun>(programs, links, transport);
}

}  // namespace

std::optional<std::string> message_fault(std::span<const Program> programs, Transport transport,
                                         int capacity) {
  MessageLinks links;
  if (auto fault = link_messages(programs, links)) return fault;
  return run_of(programs, links, transport, capacity)->fault();
}

std::vector<int> receive_buffers(std::span<const Program> programs) {
  MessageLinks links;
  const auto fault = link_messages(programs, links);
  PHALANX_CHECK(!fault, "{}", *fault);
  std::vector<int> most;
  for (std::size_t rank = 0; rank < programs.size(); ++rank) {
    const std::vector<Action>& actions = programs[rank].actions;
    int held = 0;
    most.push_back(0);
    for (std::size_t i = 0; i < actions.size(); ++i) {
      if (actions[i].kind == ActionKind::kReceive) most.back() = std::max(most.back(), ++held);
      if (is_pass(actions[i].kind) && links[rank][i] != kNoLink) --held;
    }
  }
  return most;
}

}  // namespace phalanx
