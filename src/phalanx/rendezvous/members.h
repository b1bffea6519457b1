#pragma once
// The ranks of an attempt, or the launchers, as the coordinator sees them: which have joined, what
// they exchange, which connections are lost, which member failed first. It has no socket, no thread
// and no clock: the server passes what arrives, and gets what is to be sent.

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "phalanx/rendezvous/connection_end.h"
#include "phalanx/rendezvous/detector.h"
#include "phalanx/rendezvous/mail_store.h"
#include "phalanx/rendezvous/message.h"
#include "phalanx/rendezvous/roster.h"
#include "phalanx/rendezvous/round.h"
#include "phalanx/rendezvous/timing.h"

namespace phalanx::rendezvous {

struct MembersOptions {
  std::string noun = "rank";  // or "launcher"; only ranks are judged by a detector
  int size = 0;
  std::string coordinator{};  // for people: "rank 0 (host n01, pid 4711)"
  int coordinator_rank = -1;  // whose process hosts it; -1: a launcher
  Detector::Limits limits{};
  std::chrono::milliseconds join_timeout = kJoinTimeout;
  // How long the end of a connection waits for the launcher's report of how the process ended;
  // zero: no launcher reports it.
  std::chrono::milliseconds exit_report_wait{};
  // Over TCP: connections may end while both ends live, and members reconnect.
  bool over_network = false;
};

class Members {
 public:
  using Clock = Detector::Clock;
  using Bytes = std::shared_ptr<const std::string>;
  // A message that `may_be_dropped` is not sent where earlier ones are still waiting to be sent.
  using Send = std::function<void(int number, const Bytes& bytes, bool may_be_dropped)>;

  Members(MembersOptions options, Send send, Clock::time_point now);

  // A process that has proved that it knows the secret asks to join. The refusal, if any.
  std::optional<Refusal> join(int number, const JoinRequest& join, Clock::time_point now);
  // UnavailableError if a member may not send this message now: its connection is to be ended.
  void on_message(int number, ControlMessage&& message, Clock::time_point now);
  // Its connection has ended. The member is lost if it does not reconnect in time: within a second
  // if its process may be gone, before the limit of silence if the network was cut.
  void on_connection_end(int number, const ConnectionEnd& end, Clock::time_point now);
  // Whether this is a member that has joined before and reconnects.
  bool is_returning(int number, const JoinRequest& join) const;
  // It has reconnected.
  void on_returned(int number, Clock::time_point now);
  // Its launcher reports that its process has ended.
  void on_process_end(int number, const std::string& how, Clock::time_point now);
  // The node's launcher is gone, and the ranks of the node with it.
  void on_node_lost(int node, const std::string& how, Clock::time_point now);

  // The first failure, once; it has been sent to all members. To be called several times a second
  // and when has_event(). It looks at all members; the functions above do not.
  std::optional<Verdict> judge(Clock::time_point now);
  // Whether something has happened that judge() need not wait for: a loss that is due, a failure.
  bool has_event(Clock::time_point now) const;
  // Sends the pings. To be called every kPingPeriod.
  void ping(Clock::time_point now);
  // The members that were lost since the last call, and how.
  std::vector<std::pair<int, std::string>> take_lost_members() {
    return std::exchange(lost_members_, {});
  }
  // How long a member may be silent.
  std::chrono::milliseconds silence_limit() const;
  // For launchers, which do not report a limit of their own.
  void set_silence_limit(std::chrono::milliseconds limit) { silence_limit_ = limit; }
  // Lines for the log: the roll-call every kRollCallPeriod until all have joined; members that are
  // slow, or were silent or away.
  std::optional<std::string> roll_call(Clock::time_point now);
  std::vector<std::string> warnings();

  // Sends a message that does not come from these members.
  void send_to_members(const ControlMessage& message) const { send_to_all(message); }
  bool has_left(int number) const { return records_.at(static_cast<std::size_t>(number)).left; }
  // The coordinator ends: members that still wait for others to join are sent a refusal.
  void abandon(const std::string& why);

  // Whether no member needs the coordinator any more.
  bool is_over() const;
  // Whether a loss is due within kUrgentBefore.
  bool is_urgent(Clock::time_point now) const;
  const Roster& roster() const { return roster_; }
  // How many members the functions that look at all of them have looked at, for tests.
  std::uint64_t visited() const {
    return visited_ + roster_.visited() + (detector_ ? detector_->visited() : 0);
  }

 private:
  struct Loss {
    std::string how;
    Clock::time_point due;
    std::uint64_t order;  // in which they came
  };
  struct Failure {
    int number;
    std::string reason;
    Clock::time_point due;
  };
  struct Record {
    bool connected = false;
    bool left = false;
    bool lost = false;  // in losses_, or reported to the detector
    std::string process_end{};
    Clock::time_point last_heard{};  // time of its last heartbeat, or when all had joined
    std::string session{};
  };

  Record& record(int number) { return records_.at(static_cast<std::size_t>(number)); }
  void send_to(int number, const ControlMessage& message) const;
  void send_to_all(const ControlMessage& message, bool may_be_dropped = false) const;
  void welcome_all(Clock::time_point now);
  void on_round_part(int number, RoundPart&& part, Clock::time_point now);
  void on_heartbeat(int number, Heartbeat&& heartbeat, Clock::time_point now);
  void on_goodbye(int number);
  void send_mail(const std::vector<MailStore::Answer>& answers) const;
  Clock::time_point loss_time(int number, const ConnectionEnd& end, Clock::time_point now) const;
  void account_for_own_gap(Clock::time_point now);
  void add_loss(int number, const std::string& how, Clock::time_point due);
  // Reports the losses that are due, or all of them, in their order.
  void process_losses(Clock::time_point now, bool all);
  void process_failure(int number, const std::string& reason, Clock::time_point now);
  void set_verdict(Verdict verdict);

  MembersOptions options_;
  Send send_;
  Roster roster_;
  Round round_;
  MailStore mail_{};
  std::vector<Record> records_;
  std::map<int, Loss> losses_{};  // by number
  std::uint64_t loss_count_ = 0;
  Clock::time_point next_due_ = Clock::time_point::max();  // of the losses, or earlier
  std::vector<std::pair<int, std::string>> lost_members_{};
  std::optional<Failure> delayed_failure_{};  // reported by a member while another may be lost
  bool failure_reported_ = false;             // to the detector, which has not judged it yet
  std::vector<std::string> log_lines_{};
  std::optional<std::chrono::milliseconds> silence_limit_{};
  std::optional<Clock::time_point> last_judge_{};
  std::optional<Detector> detector_{};  // of ranks, when all have joined
  std::optional<Verdict> verdict_{};    // the first
  bool verdict_returned_ = false;       // by judge()
  mutable std::uint64_t visited_ = 0;
  Clock::time_point begin_;
  Clock::time_point roll_called_;  // the last time
};

}  // namespace phalanx::rendezvous
