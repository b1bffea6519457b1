#pragma once
// The ranks of an attempt, or the launchers, as the coordinator sees them: who has joined, what
// they exchange, what is heard of them, who failed first. No socket, no thread, no clock of its
// own: what arrives is told to it, and what is to be sent it gives away.

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "phalanx/rendezvous/connection_end.h"
#include "phalanx/rendezvous/detector.h"
#include "phalanx/rendezvous/message.h"
#include "phalanx/rendezvous/roster.h"
#include "phalanx/rendezvous/round.h"

namespace phalanx::rendezvous {

struct GroupOptions {
  std::string noun = "rank";  // "launcher": nobody judges whether it hangs
  int size = 0;
  std::string coordinator{};  // for people: where the coordinator is
  int hosted_by = -1;
  Detector::Limits limits{};
  std::chrono::milliseconds join_timeout = std::chrono::minutes(10);
  // How long the end of a connection waits for a launcher to say how the process ended.
  std::chrono::milliseconds hold{};
  // Connections may end while both ends live, and members come back over others.
  bool over_network = false;
};

class Group {
 public:
  using Clock = Detector::Clock;
  using Bytes = std::shared_ptr<const std::string>;
  // What may be dropped is, for who has not taken what came before it.
  using Send = std::function<void(int number, const Bytes& bytes, bool may_be_dropped)>;

  Group(GroupOptions options, Send send, Clock::time_point now);

  // A member that has proved that it knows the secret. Where it is refused it is not one.
  std::optional<Refusal> join(int number, const JoinRequest& join, Clock::time_point now);
  // UnavailableError where it cannot be said at this point: the connection is to be ended.
  void heard(int number, Message&& message, Clock::time_point now);
  // Its connection has ended. It is lost if it does not come back in time: within a second where
  // its process may be gone, before its silence is too long where the network is.
  void lost(int number, const ConnectionEnd& end, Clock::time_point now);
  // Whether this is a member that has joined, which comes again.
  bool knows(int number, const JoinRequest& join) const;
  // It is back, over another connection.
  void resumed(int number, Clock::time_point now);
  // Its process has, says its launcher.
  void ended(int number, const std::string& how, Clock::time_point now);
  // The node's launcher is gone, and its ranks with it.
  void node_lost(int node, const std::string& how, Clock::time_point now);

  // Several times a second, and after whatever was told to it: the first failure, once. All members
  // have been told.
  std::optional<Verdict> judge(Clock::time_point now);
  // Every half second: pings.
  void ping(Clock::time_point now);
  // Who was lost since the last call, and how, where nobody judges them.
  std::vector<std::pair<int, std::string>> lost_members() {
    return std::exchange(lost_members_, {});
  }
  // After how much silence a member is taken for dead.
  std::chrono::milliseconds silence() const;
  // Of a group that cannot know by itself.
  void set_silence(std::chrono::milliseconds silence) { silence_ = silence; }
  // For the log: the roll-call every five seconds; ranks that are slow, or were silent.
  std::optional<std::string> roll_call(Clock::time_point now);
  std::vector<std::string> warnings();

  // Something that is not of this group's own.
  void tell_members(const Message& message) const { tell_all(message); }
  bool has_left(int number) const { return members_.at(static_cast<std::size_t>(number)).left; }
  // The coordinator goes: who still waits for others to join hears of it.
  void abandon(const std::string& why);

  // Nobody is left who would miss the coordinator.
  bool over() const;
  // Something is to be judged within milliseconds.
  bool is_urgent(Clock::time_point now) const;
  const Roster& roster() const { return roster_; }

 private:
  struct Loss {
    int number;
    std::string how;
    Clock::time_point due;
  };
  struct Member {
    bool connected = false;
    bool left = false;
    bool lost = false;  // in losses_, or told to the detector
    std::string ended{};
    Clock::time_point heard{};  // its last heartbeat, or when all had joined
    std::string session{};
  };

  Member& member(int number) { return members_.at(static_cast<std::size_t>(number)); }
  void tell(int number, const Message& message) const;
  void tell_all(const Message& message, bool may_be_dropped = false) const;
  void welcome(Clock::time_point now);
  void hear(int number, RoundPart&& part, Clock::time_point now);
  void hear(int number, Beat&& beat, Clock::time_point now);
  void hear_goodbye(int number);
  Clock::time_point due(int number, const ConnectionEnd& end, Clock::time_point now) const;
  void account_for_own_gap(Clock::time_point now);
  void add_loss(int number, const std::string& how, Clock::time_point due);
  // Those that are due, in their order; all of them where `all`.
  void take_losses(Clock::time_point now, bool all);
  void take_failure(int number, const std::string& reason, Clock::time_point now);
  void decide(Verdict verdict);

  GroupOptions options_;
  Send send_;
  Roster roster_;
  Round round_;
  std::vector<Member> members_;
  std::vector<Loss> losses_{};
  std::vector<std::pair<int, std::string>> lost_members_{};
  std::optional<Loss> failing_{};     // who said that it fails, while others may be lost
  std::vector<std::string> lines_{};  // for the log
  std::optional<std::chrono::milliseconds> silence_{};
  std::optional<Clock::time_point> judged_{};
  std::optional<Detector> detector_{};  // of ranks, when all have joined
  std::optional<Verdict> verdict_{};    // the first
  bool verdict_told_ = false;           // to judge()'s caller
  Clock::time_point begin_;
  Clock::time_point called_;  // the roll
};

}  // namespace phalanx::rendezvous
