#pragma once
// The coordinator's thread and sockets around its core (server_core.h). Includes asio.

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "phalanx/rendezvous/accept_loop.h"
#include "phalanx/rendezvous/coordinator.h"
#include "phalanx/rendezvous/server_core.h"

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
  using Clock = ServerCore::Clock;
  using Id = ServerCore::Id;

  // All of these run on the server's thread.
  void run();
  void on_connection(Socket socket);
  // To be called after an event that may need an early tick, or has freed a place at the gate.
  void after_event();
  void tick();
  void arm_timer();

  const bool ranks_join_;
  asio::io_context context_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  asio::steady_timer timer_;
  Endpoint endpoint_;
  ServerCore core_;
  std::optional<AcceptLoop> accept_loop_{};
  std::thread thread_{};
};

}  // namespace phalanx::rendezvous
