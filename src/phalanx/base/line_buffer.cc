#include "phalanx/base/line_buffer.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace phalanx {

void LineBuffer::push(std::string_view bytes) {
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    const std::size_t size = end == std::string_view::npos ? bytes.size() : end + 1;
    push_line(bytes.substr(0, size));
    bytes.remove_prefix(size);
  }
}

// Pushes a line or a part of one.
void LineBuffer::push_line(std::string_view line) {
  const bool ends = line.back() == '\n';
  if (is_within_dropped_) {
    is_within_dropped_ = !ends;
    return;
  }
  const std::size_t room = dropped_ > 0 ? most_ / 2 : most_;
  if (size() + line.size() > room) {
    ++dropped_;
    is_within_dropped_ = !ends;
    return;
  }
  say_dropped();
  append(line);
}

void LineBuffer::say_dropped() {
  if (dropped_ == 0) return;
  append(fmt::format("{}[... {} line{} dropped: {}]\n", ends_at_line_start_ ? "" : "\n", dropped_,
                     dropped_ == 1 ? "" : "s", reason_));
  dropped_ = 0;
}

void LineBuffer::append(std::string_view bytes) {
  if (bytes.empty()) return;
  waiting_ += bytes;
  ends_at_line_start_ = bytes.back() == '\n';
}

std::string LineBuffer::take(std::size_t bytes) {
  if (size() == 0) say_dropped();
  std::string next = waiting_.substr(taken_, bytes);
  taken_ += next.size();
  // Moves the rest to the front, but rarely, because that copies it.
  if (taken_ == waiting_.size() || taken_ > most_ / 2) {
    waiting_.erase(0, std::exchange(taken_, 0));
  }
  return next;
}

}  // namespace phalanx
