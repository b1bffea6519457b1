#pragma once
// A bounded buffer of lines that wait to be written. Lines that do not fit are dropped whole; a
// line in their place says how many. It has no thread and no descriptor.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace phalanx {

class LineBuffer {
 public:
  // Keeps at most `most` bytes. Dropped lines are replaced by "[... 12 lines dropped: `reason`]".
  LineBuffer(std::size_t most, std::string reason) : most_(most), reason_(std::move(reason)) {}

  // The bytes may begin and end within a line. After a dropped line all further lines are dropped
  // until half of the buffer is free again.
  void push(std::string_view bytes);
  // Drops nothing: for results, whose producer has to wait instead.
  void push_all(std::string_view bytes) { append(bytes); }

  // Removes and returns up to that many bytes; empty where nothing waits. When all is taken and
  // lines were dropped, the line about them follows at once.
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
  std::size_t taken_ = 0;           // of waiting_, from its beginning
  std::uint64_t dropped_ = 0;       // lines, not reported yet
  bool is_within_dropped_ = false;  // the next bytes are the rest of a dropped line
  bool ends_at_line_start_ = true;  // what was last appended ended a line
};

}  // namespace phalanx
