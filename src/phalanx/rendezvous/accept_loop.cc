#include "phalanx/rendezvous/accept_loop.h"

#include <asio/error.hpp>
#include <exception>
#include <utility>

#include "phalanx/base/log.h"

namespace phalanx::rendezvous {
namespace {

// There may be no memory for the line.
void warn(const char* what, const char* why) noexcept {
  try {
    log_warning("the rendezvous {}: {}", what, why);
  } catch (const std::exception&) {
    return;
  }
}

}  // namespace

AcceptLoop::AcceptLoop(std::vector<Acceptor> acceptors, HasRoom has_room, Greet greet)
    : acceptors_(std::move(acceptors)), has_room_(std::move(has_room)), greet_(std::move(greet)) {
  resting_.reserve(acceptors_.size());
  for (Acceptor& acceptor : acceptors_) rest(acceptor);
}

void AcceptLoop::wake() noexcept {
  // Those that rest again are put behind the ones that are looked at.
  for (std::size_t left = resting_.size(); left > 0; --left) {
    Acceptor& acceptor = *resting_.front();
    resting_.erase(resting_.begin());
    accept(acceptor);
  }
}

void AcceptLoop::accept(Acceptor& acceptor) noexcept {
  if (stopped_) return;
  try {
    if (!has_room_()) return rest(acceptor);
    acceptor.async_accept([this, &acceptor](const asio::error_code& error, Socket socket) {
      if (error == asio::error::operation_aborted) return;
      take(error, std::move(socket));
      if (error) return rest(acceptor);
      accept(acceptor);
    });
  } catch (const std::exception& error) {
    warn("cannot wait for connections now", error.what());
    rest(acceptor);
  }
}

void AcceptLoop::take(const asio::error_code& error, Socket socket) noexcept {
  try {
    if (!error) return greet_(std::move(socket));
    // Out of descriptors, say.
    if (!std::exchange(said_refused_, true)) {
      warn("cannot take a connection now", error.message().c_str());
    }
  } catch (const std::exception& failure) {
    warn("ended a connection", failure.what());
  }
}

}  // namespace phalanx::rendezvous
