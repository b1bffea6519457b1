#pragma once
// Takes the connections that come to the coordinator's sockets, one after the other. Whatever goes
// wrong with one of them, the next one is taken. Includes asio.

#include <functional>
#include <string>
#include <vector>

#include "phalanx/rendezvous/connection.h"
#include "phalanx/rendezvous/listener.h"

namespace phalanx::rendezvous {

class AcceptLoop {
 public:
  // Whether another connection may come.
  using HasRoom = std::function<bool()>;
  // What it throws ends that connection alone.
  using Greet = std::function<void(Socket socket)>;

  AcceptLoop(std::vector<Acceptor> acceptors, HasRoom has_room, Greet greet);
  AcceptLoop(const AcceptLoop&) = delete;
  AcceptLoop& operator=(const AcceptLoop&) = delete;

  // Sockets that rest, for there was no room or the system refused, try again; at first all do. To
  // be called several times a second.
  void wake() noexcept;
  // No more connections.
  void stop() noexcept { stopped_ = true; }

 private:
  void accept(Acceptor& acceptor) noexcept;
  void take(const asio::error_code& error, Socket socket) noexcept;
  void rest(Acceptor& acceptor) noexcept { resting_.push_back(&acceptor); }

  std::vector<Acceptor> acceptors_;
  HasRoom has_room_;
  Greet greet_;
  std::vector<Acceptor*> resting_{};  // has room for all of them
  bool said_refused_ = false;
  bool stopped_ = false;
};

}  // namespace phalanx::rendezvous
