#pragma once
// Text and token ids that commands are given.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace phalanx {

// All of it; who types it is told how it ends.
std::string standard_input();

// Ids of a JSON list, or between blanks. DataError, naming `source`, where it is neither.
std::vector<std::int32_t> token_ids_of(const std::string& text, std::string_view source);

}  // namespace phalanx
