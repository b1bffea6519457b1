#pragma once
// What becomes of the matches that a text is cut at ("-a--b-" at "-").

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "phalanx/tokenizer/hf/text_pattern.h"
#include "phalanx/tokenizer/hf/tokenizer_json.h"

namespace phalanx {

enum class SplitBehavior {
  kRemoved,             // a b
  kIsolated,            // - a - - b -
  kMergedWithPrevious,  // - a- - b-
  kMergedWithNext,      // -a - -b -
  kContiguous,          // - a -- b -
};

// ConfigError for another name.
SplitBehavior read_split_behavior(const JsonNode& node);

// Calls add(begin, end) for the parts of a text of `size` bytes, in order; some may be empty.
// invert: what lies between the matches is what the text is cut at.
void split_at(const std::vector<TextMatch>& matches, std::size_t size, SplitBehavior behavior,
              bool invert, const std::function<void(std::size_t, std::size_t)>& add);

// Metaspace's fields, of the pre-tokenizer and of the decoder.
char32_t read_replacement(const JsonNode& node);
// "always", "first" or "never"; older files have add_prefix_space instead.
std::string read_prepend_scheme(const JsonNode& node);

}  // namespace phalanx
