#pragma once
// Text that is the same in every run, with words as frequent as natural ones are.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace phalanx::bench {

// Sentences of invented words (the frequency of a word is inverse to its rank), numbers and
// punctuation, a paragraph a line; about `bytes` of it, the last line complete.
std::string generated_text(std::int64_t bytes, std::uint64_t seed = 1);

// The lines of a text, joined until they have `bytes` or more: with 0 each line is a document of
// its own. Views into the text.
std::vector<std::string_view> documents_of(std::string_view text, std::int64_t bytes);

}  // namespace phalanx::bench
