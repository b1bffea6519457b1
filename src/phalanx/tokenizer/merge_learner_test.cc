#include "phalanx/tokenizer/merge_learner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <utility>

namespace phalanx {
namespace {

using Symbols = std::vector<std::int32_t>;
using Merge = std::array<std::int32_t, 3>;
struct CountedWord {
  Symbols symbols;
  std::int64_t count;
};

// The plain rule: recounts all pairs for every merge.
std::vector<Merge> plainly_learned(std::vector<CountedWord> words, std::int64_t least_count,
                                   const MergeLearner::Merged& merged) {
  std::vector<Merge> merges;
  for (;;) {
    std::map<std::pair<std::int32_t, std::int32_t>, std::int64_t> counts;
    for (const auto& [symbols, count] : words) {
      for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
        counts[{symbols[i], symbols[i + 1]}] += count;
      }
    }
    auto best = counts.begin();
    for (auto entry = counts.begin(); entry != counts.end(); ++entry) {
      if (entry->second > best->second) best = entry;
    }
    if (best == counts.end() || best->second < least_count) return merges;
    const auto [left, right] = best->first;
    const auto result = merged(left, right);
    if (!result) return merges;
    merges.push_back({left, right, *result});
    for (auto& word : words) {
      Symbols rest;
      for (std::size_t i = 0; i < word.symbols.size(); ++i) {
        const bool is_pair =
            i + 1 < word.symbols.size() && word.symbols[i] == left && word.symbols[i + 1] == right;
        rest.push_back(is_pair ? *result : word.symbols[i]);
        if (is_pair) ++i;
      }
      word.symbols = rest;
    }
  }
}

// A merge's symbol is the sum of its parts plus 10, so different pairs often give the same symbol
// and pairs recur.
TEST(MergeLearner, EqualsAFullRecount) {
  std::uint32_t state = 3;
  const auto random = [&state](std::uint32_t limit) {
    state = state * 1664525 + 1013904223;
    return (state >> 10) % limit;
  };
  for (int round = 0; round < 300; ++round) {
    std::vector<CountedWord> words;
    MergeLearner learner;
    for (std::uint32_t i = 0; i < 1 + random(8); ++i) {
      CountedWord word{{}, 1 + random(4)};
      for (std::uint32_t j = 0; j < random(12); ++j) {
        word.symbols.push_back(static_cast<std::int32_t>(random(3)));
      }
      learner.add_word(word.symbols, word.count);
      words.push_back(word);
    }
    const std::int64_t least_count = 1 + random(3);
    const std::size_t most = 1 + random(20);
    std::vector<Merge> merges;
    learner.learn(least_count, [&](std::int32_t left, std::int32_t right) {
      if (merges.size() == most) return std::optional<std::int32_t>();
      merges.push_back({left, right, left + right + 10});
      return std::optional(left + right + 10);
    });
    std::size_t count = 0;
    EXPECT_EQ(merges,
              plainly_learned(words, least_count, [&](std::int32_t left, std::int32_t right) {
                return count++ == most ? std::nullopt : std::optional(left + right + 10);
              }));
  }
}

}  // namespace
}  // namespace phalanx
