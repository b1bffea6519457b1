#pragma once
// Opens the connections of a member that reconnects to its coordinator's address. Includes asio.

#include <asio/io_context.hpp>
#include <functional>
#include <memory>

#include "phalanx/rendezvous/connection.h"
#include "phalanx/rendezvous/link.h"

namespace phalanx::rendezvous {

// Runs on the context's thread without blocking it.
class SocketDialer final : public Dialer {
 public:
  SocketDialer(asio::io_context& context, Socket::endpoint_type address)
      : context_(context), address_(std::move(address)) {}

  void dial(std::function<void(Answer answer)> on_answer) override;
  void stop() override;

 private:
  struct Attempt {
    explicit Attempt(asio::io_context& context) : socket(context) {}
    Socket socket;
    std::function<void(Answer answer)> on_answer{};
  };

  asio::io_context& context_;
  const Socket::endpoint_type address_;
  std::shared_ptr<Attempt> attempt_{};
};

}  // namespace phalanx::rendezvous
