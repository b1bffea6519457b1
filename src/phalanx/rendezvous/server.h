#pragma once
// The coordinator's thread and sockets. It admits connections (gate.h), lets them prove that they
// know the secret (handshake.h), and passes messages between them and the Members of the ranks or
// launchers. Includes asio.

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
    Clock::time_point state_since{};
  };
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

  // All of these run on the server's thread.
  void run();
  void on_connection(Socket socket);
  void start_handshake(Id id, Socket socket);
  void on_bytes(Id id, std::string_view bytes);
  void on_handshake_bytes(Id id, Peer& peer, std::string_view bytes);
  void on_message(Id id, Peer& peer, const OpenedMessage& message);
  void on_join_request(Id id, Peer& peer, const JoinRequest& join);
  void resume_member(Id id, Peer& peer, const JoinRequest& join);
  void send(MemberRole role, int number, const Members::Bytes& bytes, bool may_be_dropped);
  std::optional<Refusal> refusal_of(const Hello& hello) const;
  void refuse(Id id, Peer& peer, const Refusal& refusal);
  void on_connection_end(Id id, const ConnectionEnd& end);
  void end_ranks_of_lost_launchers(Clock::time_point now);
  void drop(Id id);
  void log_failed_hello(Id id, const std::string& reason);
  void start_attempt(int epoch, int world_size);
  void judge();
  void tick();
  void ping(Clock::time_point now);
  void arm_timer();
  void close_overdue_connections(Clock::time_point now);
  bool may_stop(Clock::time_point now) const;

  std::unique_ptr<World> make_world(MemberRole role, int size);
  std::unique_ptr<World>& world_of(MemberRole role) {
    return role == MemberRole::kRank ? ranks_ : launchers_;
  }

  CoordinatorOptions options_;
  std::string run_id_;
  std::string credential_;  // MUNGE's; empty: none
  std::string name_;        // "rank 0 (host n01, pid 4711)"
  int epoch_ = 0;
  asio::io_context context_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  asio::steady_timer timer_;
  Endpoint endpoint_;
  Gate gate_{};
  std::map<Id, Peer> peers_{};
  Id next_id_ = 1;
  std::unique_ptr<World> ranks_{};
  std::unique_ptr<World> launchers_{};
  std::optional<AcceptLoop> accept_loop_{};
  Clock::time_point last_ping_{};
  std::optional<Clock::time_point> stop_by_{};
  std::thread thread_{};
};

}  // namespace phalanx::rendezvous
