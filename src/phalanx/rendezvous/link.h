#pragma once
// One end of an open control connection, as the state machines of the rendezvous see it: it carries
// the bytes of the handshake, then sealed messages. Connection (connection.h) is one over a socket;
// simulated networks have others.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "phalanx/rendezvous/connection_end.h"
#include "phalanx/rendezvous/crypto.h"

namespace phalanx::rendezvous {

class Link {
 public:
  // Gets the bytes that arrive, in order, in pieces of any size. An exception ends the connection.
  using OnBytes = std::function<void(std::string_view bytes)>;
  // Called once when the connection has ended otherwise than by close().
  using OnEnd = std::function<void(const ConnectionEnd& end)>;

  virtual ~Link() = default;
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  // Begins to read.
  virtual void start(OnBytes on_bytes, OnEnd on_end) = 0;
  // The functions to call from now on.
  virtual void hand_over(OnBytes on_bytes, OnEnd on_end) = 0;
  // Sends bytes unsealed, for the handshake.
  virtual void send_raw(std::string bytes) = 0;
  // The key for all messages from now on.
  virtual void seal_with(const Key& key) = 0;
  // A message without a number (0) goes before the numbered ones that are waiting.
  virtual void send(std::shared_ptr<const std::string> message, std::uint64_t number) = 0;
  // The number of the other end's last message: it is confirmed with every message that is sent.
  virtual void set_last_received(std::uint64_t number) = 0;
  // Makes the system end a connection over a network whose other end does not answer, a little
  // before the end of the limit of silence.
  virtual void set_silence_limit(std::chrono::milliseconds limit) = 0;
  // Whether the other end may outlive the connection: a Unix socket ends only with its process.
  virtual bool is_over_network() const = 0;
  // Whether the system has taken everything that was sent.
  virtual bool all_sent() const = 0;
  // Closes when all_sent().
  virtual void close_when_sent() = 0;
  virtual void close() = 0;
  virtual bool is_open() const = 0;
  // Whether the process at the other end is of this host, and stopped.
  virtual bool peer_is_stopped() = 0;

 protected:
  Link() = default;
};

// Opens links to the coordinator, one at a time.
class Dialer {
 public:
  struct Answer {
    std::shared_ptr<Link> link{};  // not started; null: none, and `problem` says why
    std::string problem{};
    bool is_refused = false;  // its host says that nothing listens there
  };
  virtual ~Dialer() = default;
  Dialer(const Dialer&) = delete;
  Dialer& operator=(const Dialer&) = delete;

  // Calls the function once, later, unless stop() is called before.
  virtual void dial(std::function<void(Answer answer)> on_answer) = 0;
  virtual void stop() = 0;

 protected:
  Dialer() = default;
};

}  // namespace phalanx::rendezvous
