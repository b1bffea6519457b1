#include "phalanx/rendezvous/socket_dialer.h"

#include <asio/error.hpp>
#include <exception>
#include <utility>

namespace phalanx::rendezvous {

void SocketDialer::dial(std::function<void(Answer answer)> on_answer) {
  stop();
  const auto attempt = std::make_shared<Attempt>(context_);
  attempt_ = attempt;
  attempt->on_answer = std::move(on_answer);
  attempt->socket.async_connect(address_, [attempt](const asio::error_code& error) {
    const auto answer = std::exchange(attempt->on_answer, nullptr);
    if (!answer) return;
    if (error == asio::error::connection_refused) return answer({nullptr, error.message(), true});
    if (error) return answer({nullptr, error.message(), false});
    std::shared_ptr<Connection> connection;
    try {
      connection = std::make_shared<Connection>(std::move(attempt->socket));
    } catch (const std::exception& failure) {
      return answer({nullptr, failure.what(), false});
    }
    answer({std::move(connection), {}, false});
  });
}

void SocketDialer::stop() {
  const std::shared_ptr<Attempt> attempt = std::exchange(attempt_, nullptr);
  if (!attempt) return;
  attempt->on_answer = nullptr;
  asio::error_code ignored;
  attempt->socket.close(ignored);
}

}  // namespace phalanx::rendezvous
