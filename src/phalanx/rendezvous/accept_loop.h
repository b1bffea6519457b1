#pragma once
// Accepts the connections that come to the coordinator's sockets, one after the other. An error
// with one of them does not keep the next one from being accepted. Includes asio.

#include <functional>
#include <string>
#include <vector>

#include "phalanx/rendezvous/connection.h"
#include "phalanx/rendezvous/listener.h"

namespace phalanx::rendezvous {

class AcceptLoop {
 public:
  // Whether another connection may be accepted now.
  using HasRoom = std::function<bool()>;
  // Takes over a connection; an exception ends that connection only.
  using OnConnection = std::function<void(Socket socket)>;

  AcceptLoop(std::vector<Acceptor> acceptors, HasRoom has_room, OnConnection on_connection);
  AcceptLoop(const AcceptLoop&) = delete;
  AcceptLoop& operator=(const AcceptLoop&) = delete;

  // Makes the sockets accept that wait because there was no room or the system refused; at first
  // all sockets wait. To be called several times a second.
  void retry() noexcept;
  // No more connections.
  void stop() noexcept { stopped_ = true; }
  // Whether a socket waits for retry().
  bool is_waiting() const { return !waiting_.empty(); }

 private:
  void accept(Acceptor& acceptor) noexcept;
  void on_accepted(const asio::error_code& error, Socket socket) noexcept;
  void retry_later(Acceptor& acceptor) noexcept { waiting_.push_back(&acceptor); }

  std::vector<Acceptor> acceptors_;
  HasRoom has_room_;
  OnConnection on_connection_;
  std::vector<Acceptor*> waiting_{};  // reserved for all of them: adding one does not throw
  bool refusal_logged_ = false;
  bool stopped_ = false;
};

}  // namespace phalanx::rendezvous
