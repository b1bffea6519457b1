#include "phalanx/rendezvous/heartbeat_code.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "phalanx/base/error.h"
#include "phalanx/rendezvous/wire.h"

namespace phalanx::rendezvous {
namespace {

constexpr std::size_t kLongestHeartbeatText = 4096;
// A byte that is not UTF-8 becomes three.
constexpr std::size_t kLongestReadText = 3 * kLongestHeartbeatText;

enum Flag : std::uint8_t { kHasSilenceLimit = 1, kHasStillLimit = 2, kHasWait = 4 };

[[noreturn]] void refuse_heartbeat(const char* what) {
  throw UnavailableError("a heartbeat that cannot be read: {}", what);
}

void append_text(std::string& bytes, std::string_view text) {
  text = text.substr(0, kLongestHeartbeatText);
  const auto is_ascii = [](char c) { return static_cast<unsigned char>(c) < 0x80; };
  if (std::all_of(text.begin(), text.end(), is_ascii)) {
    append_number(bytes, text.size(), 2);
    bytes.append(text);
    return;
  }
  using nlohmann::json;
  const std::string quoted = json(text).dump(-1, ' ', false, json::error_handler_t::replace);
  const auto replaced = json::parse(quoted).get<std::string>();
  append_number(bytes, replaced.size(), 2);
  bytes.append(replaced);
}

void append_integer(std::string& bytes, std::int64_t value) {
  append_number(bytes, static_cast<std::uint64_t>(value), 8);
}

void append_seconds(std::string& bytes, double value) {
  append_number(bytes, std::bit_cast<std::uint64_t>(value), 8);
}

class HeartbeatReader {
 public:
  explicit HeartbeatReader(std::string_view bytes) : rest_(bytes) {}

  std::uint64_t number(int bytes) {
    const std::string_view taken = take(static_cast<std::size_t>(bytes));
    return read_number(taken, 0, bytes);
  }
  std::int64_t integer(std::int64_t low, const char* what) {
    const auto value = static_cast<std::int64_t>(number(8));
    if (value < low) refuse_heartbeat(what);
    return value;
  }
  int small(int low, const char* what) {
    const auto value = static_cast<std::int32_t>(static_cast<std::uint32_t>(number(4)));
    if (value < low) refuse_heartbeat(what);
    return value;
  }
  double seconds(const char* what) {
    const auto value = std::bit_cast<double>(number(8));
    if (!std::isfinite(value) || value < 0) refuse_heartbeat(what);
    return value;
  }
  std::string text(const char* what) {
    const std::size_t size = number(2);
    if (size > kLongestReadText) refuse_heartbeat(what);
    return std::string(take(size));
  }
  bool at_end() const { return rest_.empty(); }

 private:
  std::string_view take(std::size_t size) {
    if (size > rest_.size()) refuse_heartbeat("it ends early");
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }

  std::string_view rest_;
};

void append_wait(std::string& bytes, const Heartbeat::Wait& wait) {
  append_number(bytes, static_cast<std::uint32_t>(wait.place.rank), 4);
  append_text(bytes, wait.place.group);
  append_text(bytes, wait.place.operation);
  append_integer(bytes, wait.place.number);
  append_seconds(bytes, wait.seconds);
  const std::size_t listed = std::min(wait.missing.size(), Heartbeat::kMostMissing);
  const int count = std::max(wait.missing_count, static_cast<int>(wait.missing.size()));
  append_number(bytes, static_cast<std::uint32_t>(count), 4);
  append_number(bytes, listed, 1);
  for (std::size_t rank = 0; rank < listed; ++rank) {
    append_number(bytes, static_cast<std::uint32_t>(wait.missing[rank]), 4);
  }
}

Heartbeat::Wait read_wait(HeartbeatReader& reader) {
  Heartbeat::Wait wait;
  wait.place.rank = reader.small(-1, "rank");
  wait.place.group = reader.text("group");
  wait.place.operation = reader.text("operation");
  wait.place.number = reader.integer(-1, "number");
  wait.seconds = reader.seconds("seconds");
  wait.missing_count = reader.small(0, "missing");
  const std::size_t listed = reader.number(1);
  if (listed > Heartbeat::kMostMissing) refuse_heartbeat("missing");
  for (std::size_t rank = 0; rank < listed; ++rank) {
    wait.missing.push_back(reader.small(0, "missing"));
  }
  return wait;
}

}  // namespace

void append_heartbeat(std::string& bytes, const Heartbeat& heartbeat) {
  append_number(bytes, heartbeat.ticks, 8);
  append_integer(bytes, heartbeat.iteration);
  append_seconds(bytes, heartbeat.step_seconds);
  append_seconds(bytes, heartbeat.waited_seconds);
  append_integer(bytes, heartbeat.steps);
  append_text(bytes, heartbeat.busy);
  append_text(bytes, heartbeat.busy_progress);
  append_text(bytes, heartbeat.access);
  const int flags = (heartbeat.silence_limit ? kHasSilenceLimit : 0) |
                    (heartbeat.still_limit ? kHasStillLimit : 0) | (heartbeat.wait ? kHasWait : 0);
  append_number(bytes, static_cast<std::uint64_t>(flags), 1);
  if (heartbeat.silence_limit) append_seconds(bytes, *heartbeat.silence_limit);
  if (heartbeat.still_limit) append_seconds(bytes, *heartbeat.still_limit);
  if (heartbeat.wait) append_wait(bytes, *heartbeat.wait);
}

Heartbeat read_heartbeat(std::string_view bytes) {
  HeartbeatReader reader(bytes);
  Heartbeat heartbeat;
  heartbeat.ticks = static_cast<std::uint64_t>(reader.integer(0, "ticks"));
  heartbeat.iteration = reader.integer(-1, "iteration");
  heartbeat.step_seconds = reader.seconds("step_seconds");
  heartbeat.waited_seconds = reader.seconds("waited_seconds");
  heartbeat.steps = reader.integer(0, "steps");
  heartbeat.busy = reader.text("busy");
  heartbeat.busy_progress = reader.text("busy_progress");
  heartbeat.access = reader.text("access");
  const std::uint64_t flags = reader.number(1);
  if (flags > (kHasSilenceLimit | kHasStillLimit | kHasWait)) refuse_heartbeat("flags");
  if ((flags & kHasSilenceLimit) != 0) heartbeat.silence_limit = reader.seconds("silence_limit");
  if ((flags & kHasStillLimit) != 0) heartbeat.still_limit = reader.seconds("still_limit");
  if ((flags & kHasWait) != 0) heartbeat.wait = read_wait(reader);
  if (!reader.at_end()) refuse_heartbeat("it goes on");
  return heartbeat;
}

}  // namespace phalanx::rendezvous
