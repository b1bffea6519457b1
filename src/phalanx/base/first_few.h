#pragma once
// Short lists for messages.

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace phalanx {

inline constexpr std::size_t kNamedInMessages = 10;

// The first ten, and how many more there are: "a; b; and 12 more".
inline std::string first_few(std::span<const std::string> texts, std::string_view between) {
  const auto named = texts.first(std::min(texts.size(), kNamedInMessages));
  const std::size_t more = texts.size() - named.size();
  return fmt::format("{}{}", fmt::join(named, between),
                     more == 0 ? "" : fmt::format("{}and {} more", between, more));
}

}  // namespace phalanx
