#pragma once
// The coordinator's thread and sockets: lets connections in through the gate, has them prove
// themselves, and carries what they say to their group and back. Includes asio.

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "phalanx/rendezvous/accept_loop.h"
#include "phalanx/rendezvous/connection.h"
#include "phalanx/rendezvous/coordinator.h"
#include "phalanx/rendezvous/frame.h"
#include "phalanx/rendezvous/gate.h"
#include "phalanx/rendezvous/handshake.h"
#include "phalanx/rendezvous/members.h"
#include "phalanx/rendezvous/session.h"

namespace phalanx::rendezvous {

class Server {
 public:
  explicit Server(const CoordinatorOptions& options);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  Endpoint endpoint() const { return endpoint_; }
  void begin_attempt(int epoch, int world_size);
  void rank_ended(int rank, const std::string& how);

 private:
  using Clock = Detector::Clock;
  using Id = Gate::Id;
  enum class State : std::uint8_t { kUnproven, kProven, kMember };
  struct Peer {
    std::shared_ptr<Connection> connection;
    ServerHandshake handshake;
    std::optional<FrameOpener> opener{};
    State state = State::kUnproven;
    Clock::time_point since{};  // of this state
  };
  // A member's connection, which may change, and what was said over all of them.
  struct Seat {
    Id peer = 0;
    Session session{};
  };
  // A group and its members' seats, by number.
  struct Assembly {
    Group group;
    std::vector<Seat> seats;
  };

  // All of them on the server's thread.
  void run();
  void greet(Socket socket);
  void admit(Id id, Socket socket);
  void hear(Id id, std::string_view bytes);
  void prove(Id id, Peer& peer, std::string_view bytes);
  void take(Id id, Peer& peer, const OpenedMessage& message);
  void join(Id id, Peer& peer, const JoinRequest& join);
  void resume(Id id, Peer& peer, const JoinRequest& join);
  void send(MemberRole role, int number, const Group::Bytes& bytes, bool may_be_dropped);
  std::optional<Refusal> refusal_of(const Hello& hello) const;
  void refuse(Id id, Peer& peer, const Refusal& refusal);
  void end(Id id, const ConnectionEnd& end);
  void take_lost_launchers(Clock::time_point now);
  void drop(Id id);
  void log_failed_hello(Id id, const std::string& reason);
  void start_attempt(int epoch, int world_size);
  void settle();
  void tick();
  void ping(Clock::time_point now);
  void arm_timer();
  void turn_away_late_ones(Clock::time_point now);
  bool may_go(Clock::time_point now) const;

  std::unique_ptr<Assembly> assemble(MemberRole role, int size);
  std::unique_ptr<Assembly>& assembly_of(MemberRole role) {
    return role == MemberRole::kRank ? ranks_ : launchers_;
  }

  CoordinatorOptions options_;
  std::string run_id_;
  std::string credential_;  // of MUNGE; empty: none
  std::string who_;         // "rank 0 (host n01, pid 4711)"
  int epoch_ = 0;
  asio::io_context context_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  asio::steady_timer timer_;
  Endpoint endpoint_;
  Gate gate_{};
  std::map<Id, Peer> peers_{};
  Id next_id_ = 1;
  std::unique_ptr<Assembly> ranks_{};
  std::unique_ptr<Assembly> launchers_{};
  std::optional<AcceptLoop> accept_loop_{};
  Clock::time_point pinged_{};
  std::optional<Clock::time_point> stop_by_{};
  std::thread thread_{};
};

}  // namespace phalanx::rendezvous
