#pragma once
// Messages between two ends that have a connection's keys, cut into frames:
//
//   length of the payload (4 bytes) | sequence number (8) | payload | MAC (16)
//
// with little-endian numbers. The payload is
//
//   whether the message goes on in the next frame (1) | the message's number (8) |
//   number of the last message that the sender has received (8) | a part of the message
//
// Sequence numbers count the frames of a connection, message numbers the messages of a session
// (session.h). The MAC is HMAC-SHA256 over all before it, cut to 16 bytes; each connection has a
// key for each direction. A wrong MAC, sequence number or length is an UnavailableError, which ends
// the connection.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "phalanx/rendezvous/crypto.h"

namespace phalanx::rendezvous {

inline constexpr std::size_t kFrameHeaderBytes = 12;
inline constexpr std::size_t kFrameMacBytes = 16;
inline constexpr std::size_t kLongestPayload = std::size_t{64} << 10;
inline constexpr std::size_t kLongestPart = kLongestPayload - 17;

// The numbers that go with a message of a session.
struct MessageNumbers {
  std::uint64_t number = 0;         // its own; 0: none, the message may be lost
  std::uint64_t last_received = 0;  // of the last message that its sender has received
};

struct OpenedMessage {
  std::string text{};
  MessageNumbers numbers{};
};

class FrameSealer {
 public:
  explicit FrameSealer(const Key& key) : key_(key) {}

  // The next frame of `message`, from `offset` on. Moves `offset` behind it: with the last frame,
  // to the message's end.
  std::string seal(std::string_view message, std::size_t& offset, const MessageNumbers& numbers);
  // All frames of a message.
  std::string seal_all(std::string_view message, const MessageNumbers& numbers = {});

 private:
  Key key_;
  std::uint64_t number_ = 0;
};

class FrameOpener {
 public:
  // Messages of more than `longest` bytes are refused.
  FrameOpener(const Key& key, std::size_t longest) : key_(key), longest_(longest) {}

  void feed(std::string_view bytes) { received_.append(bytes); }
  // The next complete message, if any. To be called after each feed() until it is empty.
  std::optional<OpenedMessage> next();

 private:
  Key key_;
  std::size_t longest_;
  std::uint64_t number_ = 0;
  std::string received_{};
  std::size_t used_ = 0;  // bytes of received_
  std::string message_{};
};

}  // namespace phalanx::rendezvous
