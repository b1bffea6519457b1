#pragma once
// Text and token ids, as inputs of commands.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/cli/command_io.h"

namespace phalanx {

// All of the input; on a terminal a line says how to end it.
std::string standard_input(CommandIo& io);

// DataError, naming `source`, if the text is not UTF-8.
void check_utf8(std::string_view text, std::string_view source);

// Reads lines of the input as they arrive.
class InputLines {
 public:
  // On a terminal a line says how to end it, if it `greets`.
  explicit InputLines(CommandIo& io, bool greets = true) : io_(io), has_begun_(!greets) {}
  // The whole lines that have arrived, without line ends: at least one and at most `most`; empty at
  // the end of the input.
  std::vector<std::string> next(std::size_t most);

 private:
  CommandIo& io_;
  std::string text_;       // text that has arrived and is not returned yet
  std::size_t taken_ = 0;  // bytes of text_ that were returned
  std::size_t searched_ = 0;
  bool has_begun_, has_ended_ = false;
};

// Reads ids from a JSON list, or separated by blanks. DataError, naming `source`, for anything
// else.
std::vector<std::int32_t> token_ids_of(const std::string& text, std::string_view source);

}  // namespace phalanx
