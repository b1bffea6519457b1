#pragma once
// The texts of --window-size and of flags that choose layers, as --window-attn-skip-freq does.

#include <cstdint>
#include <string_view>
#include <vector>

namespace phalanx {

// Reads "L,R" or "(L,R)": how many keys a query of a causal stack sees, itself included; 0: all
// before it. ConfigError if the text has another form, or R is not 0.
std::int64_t window_from_text(std::string_view text);

// Which of `layers` layers a flag chooses. "N": those that the rule for a number chooses, given a
// layer from 0 and N; or a list of 0 and 1 as Python writes it, with brackets, parentheses, + and
// *:
// "[0]*2+[1]*3". ConfigError if the text has another form or the list another length.
using EveryNth = bool (*)(std::int64_t layer, std::int64_t n);
std::vector<bool> layers_from_text(std::string_view flag, std::string_view text,
                                   std::int64_t layers, EveryNth is_one);

// Which of `layers` layers have the window: all but every N-th, or those of a list. An empty text
// gives no list: all layers have it.
std::vector<bool> window_layers_from_text(std::string_view text, std::int64_t layers);

}  // namespace phalanx
