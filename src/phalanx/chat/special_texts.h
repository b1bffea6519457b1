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
