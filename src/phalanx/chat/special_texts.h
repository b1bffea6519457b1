#pragma once
// The texts that a tokenizer reads as special tokens where it is told to parse them.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "phalanx/tokenizer/tokenizer.h"

namespace phalanx {

// White space of ASCII, which templates trim.
inline constexpr std::string_view kTrimmedBlanks = " \t\n\r\v\f";

// Whether its text is this token where special tokens are parsed, and there alone.
bool is_special_token(const Tokenizer& tokenizer, std::int32_t id);

class SpecialTexts {
 public:
  // Looks at every id: some tenths of a second for 100,000 ids.
  explicit SpecialTexts(const Tokenizer& tokenizer);

  // By id.
  const std::vector<std::pair<std::int32_t, std::string>>& all() const { return all_; }
  bool has(std::int32_t id) const;

  // False: encoding the text with and without parse_special gives the same ids.
  bool may_occur_in(std::string_view text) const;

 private:
  std::vector<std::pair<std::int32_t, std::string>> all_;
  std::array<std::vector<std::string>, 256> by_first_byte_;
};

}  // namespace phalanx
