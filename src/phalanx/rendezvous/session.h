#pragma once
// One end's record of the messages of a control connection: those that it sent and the other end
// has not confirmed, and the number of the last one that it received. It outlives the connection:
// over the next one, lost messages are sent again, and messages that come twice are dropped.
// Heartbeats and pings have no number and are not sent again. It has no socket.

#include <cstdint>
#include <deque>
#include <memory>
#include <string>

namespace phalanx::rendezvous {

class Session {
 public:
  using Bytes = std::shared_ptr<const std::string>;
  struct SentMessage {
    std::uint64_t number;
    Bytes bytes;
  };
  // Every message confirms what its sender has received, so an end with this many unconfirmed ones
  // has been alone for long: it forgets the oldest, and the session cannot be resumed.
  static constexpr std::size_t kMostUnconfirmed = 1024;

  // Keeps a message that is sent, and returns its number: 1, 2, ...
  std::uint64_t add_sent(Bytes message);
  // Records a received message; whether it is new. UnavailableError if one before it never came.
  bool accept(std::uint64_t number);
  // The number of the other end's last message that was received.
  std::uint64_t last_received() const { return last_received_; }
  // The other end has received all messages up to `number`. UnavailableError if there is no such
  // message.
  void confirm(std::uint64_t number);
  // Messages to send again after a reconnection, in order.
  const std::deque<SentMessage>& unconfirmed() const { return unconfirmed_; }
  // Whether no unconfirmed message has been forgotten.
  bool is_whole() const { return !has_forgotten_; }

 private:
  std::uint64_t last_sent_ = 0;
  std::uint64_t last_received_ = 0;
  std::deque<SentMessage> unconfirmed_{};
  bool has_forgotten_ = false;
};

}  // namespace phalanx::rendezvous
