#include "phalanx/rendezvous/accept_loop.h"

#include <asio/error.hpp>
#include <exception>
#include <utility>

#include "phalanx/base/log.h"

namespace phalanx::rendezvous {
namespace {

// Logging may fail for lack of memory.
void warn(const char* what, const char* why) noexcept {
  try {
    log_warning("the rendezvous {}: {}", what, why);
  } catch (const std::exception&) {
    return;
  }
}

}  // namespace

AcceptLoop::AcceptLoop(std::vector<Acceptor> acceptors, HasRoom has_room,
                       OnConnection on_connection)
    : acceptors_(std::move(acceptors)),
      has_room_(std::move(has_room)),
      on_connection_(std::move(on_connection)) {
  waiting_.reserve(acceptors_.size());
  for (Acceptor& acceptor : acceptors_) retry_later(acceptor);
}

void AcceptLoop::retry() noexcept {
  // Sockets that have to wait again are appended behind the ones of this round.
  for (std::size_t left = waiting_.size(); left > 0; --left) {
    Acceptor& acceptor = *waiting_.front();
    waiting_.erase(waiting_.begin());
    accept(acceptor);
  }
}

void AcceptLoop::accept(Acceptor& acceptor) noexcept {
  if (stopped_) return;
  try {
    if (!has_room_()) return retry_later(acceptor);
    acceptor.async_accept([this, &acceptor](const asio::error_code& error, Socket socket) {
      if (error == asio::error::operation_aborted) return;
      on_accepted(error, std::move(socket));
      if (error) return retry_later(acceptor);
      accept(acceptor);
    });
  } catch (const std::exception& error) {
    warn("cannot wait for connections now", error.what());
    retry_later(acceptor);
  }
}

void AcceptLoop::on_accepted(const asio::error_code& error, Socket socket) noexcept {
  try {
    if (!error) return on_connection_(std::move(socket));
    // For example, the process may be out of descriptors.
    if (!std::exchange(refusal_logged_, true)) {
      warn("cannot take a connection now", error.message().c_str());
    }
  } catch (const std::exception& failure) {
    warn("ended a connection", failure.what());
  }
}

}  // namespace phalanx::rendezvous
