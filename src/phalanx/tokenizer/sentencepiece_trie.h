#pragma once
// A trie over bytes: which of many strings a text begins with, found in one walk.

#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/tokenizer/pair_map.h"

namespace phalanx {

class SentencePieceTrie {
 public:
  static constexpr std::int32_t kRoot = 0;
  static constexpr std::int32_t kNone = -1;

  // The string is not empty; of equal ones the last counts. Values are not negative.
  void add(std::string_view text, std::int32_t value) {
    std::int32_t node = kRoot;
    for (const char c : text) {
      PHALANX_CHECK(values_.size() < kMostNodes, "a trie of {} nodes", values_.size());
      const auto fresh = static_cast<std::uint32_t>(values_.size());
      const std::uint32_t next = steps_.find_or_insert(key(node, c), fresh);
      if (next == fresh) values_.push_back(kNone);
      node = static_cast<std::int32_t>(next);
    }
    values_[static_cast<std::size_t>(node)] = value;
  }

  bool empty() const { return values_.size() == 1; }
  // The node behind this byte, or kNone.
  std::int32_t step(std::int32_t node, char c) const {
    const std::uint32_t next = steps_.find(key(node, c));
    return next == PairMap::kNone ? kNone : static_cast<std::int32_t>(next);
  }
  // The value of the string that ends at this node, or kNone.
  std::int32_t value(std::int32_t node) const { return values_[static_cast<std::size_t>(node)]; }

  // Bytes of the longest string that the text begins with; 0 where there is none.
  std::size_t longest_prefix(std::string_view text) const {
    std::size_t longest = 0;
    std::int32_t node = kRoot;
    for (std::size_t i = 0; i < text.size(); ++i) {
      node = step(node, text[i]);
      if (node == kNone) break;
      if (value(node) != kNone) longest = i + 1;
    }
    return longest;
  }

 private:
  static constexpr std::size_t kMostNodes = std::numeric_limits<std::int32_t>::max();
  static std::uint64_t key(std::int32_t node, char c) {
    return PairMap::key(node, static_cast<std::uint8_t>(c));
  }

  PairMap steps_;  // (node, byte) -> node
  std::vector<std::int32_t> values_ = {kNone};
};

}  // namespace phalanx
