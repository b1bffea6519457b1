#include "phalanx/rendezvous/frame.h"

#include <algorithm>

#include "phalanx/base/error.h"
#include "phalanx/rendezvous/wire.h"

namespace phalanx::rendezvous {
namespace {

constexpr char kLastFrame = 0;
constexpr char kMoreFollows = 1;
// The payload before the part of the message.
constexpr std::size_t kNumbersBytes = kLongestPayload - kLongestPart;

std::string_view mac_of(const Digest& digest) { return text_of(digest).substr(0, kFrameMacBytes); }

}  // namespace

std::string FrameSealer::seal(std::string_view message, std::size_t& offset,
                              const MessageNumbers& numbers) {
  const std::string_view part = message.substr(offset, kLongestPart);
  offset += part.size();
  std::string frame;
  frame.reserve(kFrameHeaderBytes + kNumbersBytes + part.size() + kFrameMacBytes);
  append_number(frame, kNumbersBytes + part.size(), 4);
  append_number(frame, number_++, 8);
  frame.push_back(offset == message.size() ? kLastFrame : kMoreFollows);
  append_number(frame, numbers.number, 8);
  append_number(frame, numbers.last_received, 8);
  frame.append(part);
  frame.append(mac_of(hmac_sha256(key_.bytes(), frame)));
  return frame;
}

std::string FrameSealer::seal_all(std::string_view message, const MessageNumbers& numbers) {
  std::size_t offset = 0;
  std::string frames = seal(message, offset, numbers);
  while (offset < message.size()) frames += seal(message, offset, numbers);
  return frames;
}

std::optional<OpenedMessage> FrameOpener::next() {
  while (received_.size() - used_ >= kFrameHeaderBytes) {
    const std::string_view rest = std::string_view(received_).substr(used_);
    const std::size_t length = read_number(rest, 0, 4);
    // Checked before the bytes come, so that a wrong length reserves no memory.
    if (length < kNumbersBytes || length > kLongestPayload) {
      throw UnavailableError("a control frame of {} bytes", length);
    }
    const std::size_t signed_bytes = kFrameHeaderBytes + length;
    if (rest.size() < signed_bytes + kFrameMacBytes) break;
    const Digest expected = hmac_sha256(key_.bytes(), rest.substr(0, signed_bytes));
    if (!equal_secretly(mac_of(expected), rest.substr(signed_bytes, kFrameMacBytes))) {
      throw UnavailableError("a control frame with a wrong MAC");
    }
    if (read_number(rest, 4, 8) != number_) {
      throw UnavailableError("a control frame out of sequence: number {} instead of {}",
                             read_number(rest, 4, 8), number_);
    }
    ++number_;
    const char more = rest[kFrameHeaderBytes];
    const MessageNumbers numbers{read_number(rest, kFrameHeaderBytes + 1, 8),
                                 read_number(rest, kFrameHeaderBytes + 9, 8)};
    const std::string_view part =
        rest.substr(kFrameHeaderBytes + kNumbersBytes, length - kNumbersBytes);
    if (more != kLastFrame && more != kMoreFollows)
      throw UnavailableError("a control frame of no kind");
    if (message_.size() + part.size() > longest_) {
      throw UnavailableError("a control message of more than {} bytes", longest_);
    }
    message_.append(part);
    used_ += signed_bytes + kFrameMacBytes;
    if (more == kLastFrame) return OpenedMessage{std::exchange(message_, {}), numbers};
  }
  received_.erase(0, std::exchange(used_, 0));
  return std::nullopt;
}

}  // namespace phalanx::rendezvous
