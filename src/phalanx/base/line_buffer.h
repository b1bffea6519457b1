#pragma once
// Bytes of lines that wait to be written, of a bounded size: what does not fit is dropped by whole
// lines, and how many that were is said in their place. No thread, no descriptor.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace phalanx {

class LineBuffer {
 public:
  // At most `most` bytes wait. `reason` ends "[... 12 lines dropped: ", which takes their place.
  LineBuffer(std::size_t most, std::string reason) : most_(most), reason_(std::move(reason)) {}

  // The bytes may begin and end within a line. Once a line was dropped, so are those that follow,
  // until half of the buffer is free again.
  void push(std::string_view bytes);
  // Drops nothing: for results, whose producer is made to wait instead.
  void push_all(std::string_view bytes) { append(bytes); }

  // What is to be written next: up to that many bytes, empty where nothing waits. Where all was
  // taken and lines were dropped, that is said at once.
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
  std::uint64_t dropped_ = 0;       // lines that nobody was told of yet
  bool is_within_dropped_ = false;  // what comes is the rest of a line that was dropped
  bool ends_at_line_start_ = true;  // what was last appended ended a line
};

}  // namespace phalanx
