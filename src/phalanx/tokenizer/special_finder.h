#pragma once
// Finds special tokens that are written in a text.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace phalanx {

class SpecialFinder {
 public:
  struct Found {
    std::size_t begin = 0;
    std::size_t length = 0;
    std::int32_t id = 0;
  };

  SpecialFinder() = default;
  // (text, id); no text is empty or comes twice.
  explicit SpecialFinder(std::vector<std::pair<std::string, std::int32_t>> tokens);

  // The one that begins first; of several that begin there, the longest.
  std::optional<Found> find(std::string_view text) const;

 private:
  std::optional<Found> found_at(std::string_view text, std::size_t begin) const;

  std::vector<std::pair<std::string, std::int32_t>> tokens_;  // sorted
  std::array<bool, 256> first_bytes_{};
};

}  // namespace phalanx
