#pragma once
// Text and token ids that commands are given.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace phalanx {

// All of it; who types it is told how it ends.
std::string standard_input();

// DataError, naming `source`, where the text is no UTF-8.
void check_utf8(std::string_view text, std::string_view source);

// Lines of standard input as they come.
class InputLines {
 public:
  // As many whole lines as have come, at least one and at most so many, without their ends; none at
  // the end of the input.
  std::vector<std::string> next(std::size_t most);

 private:
  std::string text_;       // that has come and is not taken yet
  std::size_t taken_ = 0;  // bytes of it
  std::size_t searched_ = 0;
  bool has_begun_ = false, has_ended_ = false;
};

// Ids of a JSON list, or between blanks. DataError, naming `source`, where it is neither.
std::vector<std::int32_t> token_ids_of(const std::string& text, std::string_view source);

}  // namespace phalanx
