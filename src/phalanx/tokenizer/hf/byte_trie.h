#pragma once
// A set of byte strings that finds all prefixes of a text that are in it, in one walk.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "phalanx/tokenizer/pair_map.h"

namespace phalanx {

class ByteTrie {
 public:
  static constexpr std::int32_t kNone = -1;

  // The value of a string that is not empty; of equal strings the first value stays.
  void insert(std::string_view key, std::int32_t value) {
    std::int32_t node = 0;
    for (const char c : key) node = child_or_new(node, c);
    if (values_[static_cast<std::size_t>(node)] == kNone) {
      values_[static_cast<std::size_t>(node)] = value;
    }
  }

  // Calls visit(bytes, value) for each prefix of `text` that is in the set, shortest first.
  template <typename Visit>
  void visit_prefixes(std::string_view text, Visit&& visit) const {
    if (text.empty()) return;
    std::int32_t node = roots_[static_cast<std::uint8_t>(text[0])];
    for (std::size_t size = 1; node != kNone; ++size) {
      const std::int32_t value = values_[static_cast<std::size_t>(node)];
      if (value != kNone) visit(size, value);
      if (size == text.size()) return;
      const std::uint32_t next = children_.find(key_of(node, text[size]));
      node = next == PairMap::kNone ? kNone : static_cast<std::int32_t>(next);
    }
  }

 private:
  static std::uint64_t key_of(std::int32_t node, char c) {
    return PairMap::key(node, static_cast<std::uint8_t>(c));
  }

  std::int32_t child_or_new(std::int32_t node, char c) {
    const auto fresh = static_cast<std::int32_t>(values_.size());
    std::int32_t child = kNone;
    if (node == 0) {
      std::int32_t& root = roots_[static_cast<std::uint8_t>(c)];
      if (root == kNone) root = fresh;
      child = root;
    } else {
      child = static_cast<std::int32_t>(
          children_.find_or_insert(key_of(node, c), static_cast<std::uint32_t>(fresh)));
    }
    if (child == fresh) values_.push_back(kNone);
    return child;
  }

  static constexpr std::array<std::int32_t, 256> no_roots() {
    std::array<std::int32_t, 256> none{};
    none.fill(kNone);
    return none;
  }

  std::array<std::int32_t, 256> roots_ = no_roots();  // children of the empty string, node 0
  PairMap children_;                                  // (node, byte) -> node
  std::vector<std::int32_t> values_ = {kNone};        // by node
};

}  // namespace phalanx
