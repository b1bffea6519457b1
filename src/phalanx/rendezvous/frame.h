#pragma once
// What two ends that know a session's key say to each other: messages of any bytes, cut in frames
//
//   length of the payload (4 bytes) | sequence number (8) | payload | MAC (16)
//
// with the numbers little-endian. The payload is
//
//   whether the message goes on in the next frame (1) | the message's number (8) |
//   up to which number the sender has heard (8) | the message's part
//
// Sequence numbers are the connection's, messages' numbers the session's (session.h). The MAC is
// HMAC-SHA256 over all before it, cut to 16 bytes, with a key of this direction and connection
// alone. A wrong MAC, sequence number or length is a UnavailableError, and ends the connection.

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

// Of a message in its session.
struct MessageNumbers {
  std::uint64_t number = 0;  // 0: none; nobody misses it
  std::uint64_t heard = 0;   // up to which the sender has heard the other end
};

struct OpenedMessage {
  std::string text{};
  MessageNumbers numbers{};
};

class FrameSealer {
 public:
  explicit FrameSealer(const Key& key) : key_(key) {}

  // The next frame of `message`, from `offset` on, which moves to what comes after it: the size
  // with the message's last frame.
  std::string seal(std::string_view message, std::size_t& offset, const MessageNumbers& numbers);
  // All of a message that is short.
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
  // The next whole message; empty where there is none yet. After each feed(), until it is empty.
  std::optional<OpenedMessage> next();

 private:
  Key key_;
  std::size_t longest_;
  std::uint64_t number_ = 0;
  std::string received_{};
  std::size_t used_ = 0;  // of what was received
  std::string message_{};
};

}  // namespace phalanx::rendezvous
