#pragma once
// What the coordinator does with its connections: it admits them (gate.h), lets them prove that
// they know the secret (handshake.h), and passes messages between them and the Members of the ranks
// or launchers. It has no socket, no thread and no clock: the server passes what arrives and when.

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "phalanx/rendezvous/coordinator.h"
#include "phalanx/rendezvous/frame.h"
#include "phalanx/rendezvous/gate.h"
#include "phalanx/rendezvous/handshake.h"
#include "phalanx/rendezvous/link.h"
#include "phalanx/rendezvous/members.h"
#include "phalanx/rendezvous/session.h"

namespace phalanx::rendezvous {

class ServerCore {
 public:
  using Clock = Detector::Clock;
  using Id = Gate::Id;

  ServerCore(const CoordinatorOptions& options, Clock::time_point now);

  // ---- connections

  // Whether another connection may be accepted now.
  bool has_room(Clock::time_point now) const { return gate_.has_room(now); }
  // A connection has come from the address; nothing if it is to be closed. `is_trusted`: of this
  // user.
  std::optional<Id> enter(const std::string& address, bool is_trusted, Clock::time_point now);
  // Its link, whose events are passed to the two functions below.
  void open(Id id, std::shared_ptr<Link> link);
  // It could not be opened.
  void dismiss(Id id);
  // UnavailableError if the connection is to be ended.
  void on_bytes(Id id, std::string_view bytes, Clock::time_point now);
  void on_connection_end(Id id, const ConnectionEnd& end, Clock::time_point now);

  // ---- the run

  void begin_attempt(int epoch, int world_size, Clock::time_point now);
  void rank_ended(int rank, const std::string& how, Clock::time_point now);
  // To be called after tick_period() at the latest.
  void tick(Clock::time_point now);
  std::chrono::milliseconds tick_period(Clock::time_point now) const;
  // Whether a loss is due soon, which makes the period short.
  bool is_urgent(Clock::time_point now) const;
  // The coordinator ends: members that wait for others to join are refused, and farewells begin.
  void stop(Clock::time_point now);
  // After stop(): whether nobody needs it any more.
  bool may_end(Clock::time_point now) const;
  // Closes all connections.
  void close();

  // Null where there are none.
  const Members* ranks() const { return ranks_ ? &ranks_->members : nullptr; }
  const Gate& gate() const { return gate_; }

 private:
  enum class State : std::uint8_t { kUnproven, kProven, kMember };
  struct Peer {
    std::shared_ptr<Link> link;
    ServerHandshake handshake;
    std::optional<FrameOpener> opener{};
    State state = State::kUnproven;
  };
  using Peers = std::unordered_map<Id, Peer>;
  // A member's connection at present, and its session over all of its connections.
  struct Seat {
    Id peer = 0;
    Session session{};
  };
  // The ranks, or the launchers, with their seats by number.
  struct World {
    Members members;
    std::vector<Seat> seats;
  };
  struct Proof {
    Id peer;
    Clock::time_point time;
  };

  void on_handshake_bytes(Id id, Peer& peer, std::string_view bytes, Clock::time_point now);
  void on_message(Id id, Peer& peer, const OpenedMessage& message, Clock::time_point now);
  void on_join_request(Id id, Peer& peer, const JoinRequest& join, Clock::time_point now);
  void resume_member(Id id, Peer& peer, const JoinRequest& join, Clock::time_point now);
  void send(MemberRole role, int number, const Members::Bytes& bytes, bool may_be_dropped);
  std::optional<Refusal> refusal_of(const Hello& hello) const;
  void refuse(Id id, Peer& peer, const Refusal& refusal);
  void end_ranks_of_lost_launchers(Clock::time_point now);
  void drop(Id id);
  void log_failed_hello(Id id, const std::string& reason, Clock::time_point now);
  void judge(Clock::time_point now);
  // Judges only if something has happened that does not wait for the next tick.
  void judge_events(Clock::time_point now);
  void ping(Clock::time_point now);
  void account_for_own_gap(Clock::time_point now);
  void close_overdue_connections(Clock::time_point now);

  std::unique_ptr<World> make_world(MemberRole role, int size, Clock::time_point now);
  std::unique_ptr<World>& world_of(MemberRole role) {
    return role == MemberRole::kRank ? ranks_ : launchers_;
  }

  CoordinatorOptions options_;
  std::string run_id_;
  std::string credential_;  // MUNGE's; empty: none
  std::string name_;        // "rank 0 (host n01, pid 4711)"
  int epoch_ = 0;
  Gate gate_{};
  Peers peers_{};
  std::deque<Proof> proofs_{};  // of peers that have not asked to join yet, the oldest first
  Id next_id_ = 1;
  std::unique_ptr<World> ranks_{};
  std::unique_ptr<World> launchers_{};
  Clock::time_point last_ping_{};
  Clock::time_point last_tick_;
  std::optional<Clock::time_point> stop_by_{};
};

}  // namespace phalanx::rendezvous
