#pragma once
// The texts of --window-size and --window-attn-skip-freq.

#include <cstdint>
#include <string_view>
#include <vector>

namespace phalanx {

// Keys that a query of a causal stack sees, itself among them, of "L,R" or "(L,R)"; 0: all before
// it. ConfigError where the text is nothing of the kind, or R is not 0.
std::int64_t window_from_text(std::string_view text);

// Which of so many layers have the window: of "N" all but every N-th, or of a list of 0 and 1 as
// Python writes it, with brackets, parentheses, + and *: "[0]*2+[1]*3". None where the text is
// empty: all. ConfigError where it is nothing of the kind or the list has another length.
std::vector<bool> window_layers_from_text(std::string_view text, std::int64_t layers);

}  // namespace phalanx
