#pragma once
// The texts of --window-size and --window-attn-skip-freq.

#include <cstdint>
#include <string_view>
#include <vector>

namespace phalanx {

// Reads "L,R" or "(L,R)": how many keys a query of a causal stack sees, itself included; 0: all
// before it. ConfigError if the text has another form, or R is not 0.
std::int64_t window_from_text(std::string_view text);

// Which of `layers` layers have the window: all but every N-th, or those of a list. An empty text
// gives no list: all layers have it.
std::vector<bool> window_layers_from_text(std::string_view text, std::int64_t layers);

}  // namespace phalanx
