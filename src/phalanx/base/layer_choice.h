#pragma once
// The text of a flag that chooses layers of a model, as --window-attn-skip-freq and
// --moe-layer-freq do.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace phalanx {

// Which of `layers` layers a flag chooses. "N": those that the rule for a number chooses, given a
// layer from 0 and N; or a list of 0 and 1 as Python writes it, with brackets, parentheses, + and
// *: "[0]*2+[1]*3". ConfigError if the text has another form or the list another length.
using EveryNth = bool (*)(std::int64_t layer, std::int64_t n);
std::vector<bool> layers_from_text(std::string_view flag, std::string_view text,
                                   std::int64_t layers, EveryNth is_one);

// The list of such layers: "[0]*2+[1]*3".
std::string layer_list_text(const std::vector<bool>& layers);

}  // namespace phalanx
