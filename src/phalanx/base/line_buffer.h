#pragma once
// A bounded buffer of lines that wait to be written. Lines that do not fit are dropped whole, and
// one line says how many. It has no thread and no descriptor.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace phalanx {

class LineBuffer {
 public:
  // Keeps at most `most` bytes. Dropped lines are replaced by "[... 12 lines dropped: `reason`]".
  LineBuffer(std::size_t most, std::string reason) : most_(most), reason_(std::move(reason)) {}

  // The bytes may start and end within a line. After one dropped line all further lines are dropped
  // until half of the buffer is free.
  void push(std::string_view bytes);
  // Drops nothing: for results, whose producer must wait instead.
  void push_all(std::string_view bytes) { append(bytes); }

  // Removes and returns up to `bytes` bytes; empty if nothing waits. Once all bytes are taken, the
  // line about dropped lines follows.
  std::string take(std::size_t bytes);

  std::size_t size() const { return waiting_.size() - taken_; }
  bool empty() const { return size() == 0 && dropped_ == 0; }
  std::size_t most() const { return most_; }

 private:
  void push_line(std::string_view line);
  void say_dropped();
  void append(std::string_view bytes);

  std::size_t most_;
  std::string reason_;
  std::string waiting_;
  std::size_t taken_ = 0;           // bytes of waiting_ that were taken
  std::uint64_t dropped_ = 0;       // lines that are not reported yet
  bool is_within_dropped_ = false;  // the next bytes are the rest of a dropped line
  bool ends_at_line_start_ = true;  // the last appended bytes ended a line
};

}  // namespace phalanx
