#include "phalanx/tokenizer/word_cache.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

namespace phalanx {
namespace {

using Ids = std::vector<std::int32_t>;

Ids found(const WordCache& cache, const std::string& word, std::size_t readable) {
  const auto ids = cache.find(WordCache::key_of(word, readable));
  return {ids.begin(), ids.end()};
}

TEST(WordCache, ReturnsStoredIds) {
  WordCache cache;
  std::map<std::string, Ids> all;
  std::mt19937 random(1);
  std::size_t known = 0;
  for (int i = 0; i < 20000; ++i) {
    // Trailing zeros, and words that are prefixes of others: the length matters.
    std::string word;
    for (std::size_t n = 1 + random() % WordCache::kLongestWord; n > 0; --n) {
      word.push_back("\0ab"[random() % 3]);
    }
    if (i % 2 == 0) word = word.substr(0, 1 + random() % 4);
    // The rest of the text is not part of the word.
    const std::string text = word + std::string(32, static_cast<char>(random()));
    const auto key = WordCache::key_of(std::string_view(text).substr(0, word.size()), text.size());
    ASSERT_EQ(key, WordCache::key_of(word, word.size()));
    const auto entry = all.find(word);
    const Ids ids = found(cache, word, word.size());
    if (entry == all.end()) {
      ASSERT_TRUE(ids.empty());
      Ids fresh;
      for (std::size_t n = 1 + random() % WordCache::kMostIds; n > 0; --n) {
        fresh.push_back(static_cast<std::int32_t>(random() >> 1));
      }
      cache.insert(key, fresh);
      all[word] = fresh;
      ASSERT_EQ(found(cache, word, word.size()), fresh);
    } else if (!ids.empty()) {  // else evicted
      ASSERT_EQ(ids, entry->second);
      ++known;
    }
  }
  EXPECT_GT(known, 5000U);
}

}  // namespace
}  // namespace phalanx
