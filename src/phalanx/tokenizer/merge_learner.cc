#include "phalanx/tokenizer/merge_learner.h"

#include <utility>

#include "phalanx/base/error.h"

namespace phalanx {

void MergeLearner::add_word(std::span<const std::int32_t> symbols, std::int64_t count) {
  PHALANX_CHECK(words_.size() < PairMap::kNone, "{} distinct words", words_.size());
  const auto index = static_cast<std::uint32_t>(words_.size());
  words_.push_back({symbols_.size(), symbols.size(), count});
  symbols_.insert(symbols_.end(), symbols.begin(), symbols.end());
  for (std::size_t i = 0; i + 1 < symbols.size(); ++i) gain(symbols[i], symbols[i + 1], index);
}

void MergeLearner::learn(std::int64_t least_count, const Merged& merged) {
  queue_gained();
  while (!queue_.empty()) {
    const Candidate best = queue_.top();
    queue_.pop();
    Pair& pair = pairs_[best.pair];
    if (best.count != pair.queued) continue;  // it gained since, and has another candidate
    pair.queued = 0;
    if (pair.count < least_count) continue;
    if (pair.count != best.count) {  // it lost occurrences since it was queued
      queue(best.pair);
      continue;
    }
    const auto result =
        merged(static_cast<std::int32_t>(best.key >> 32), static_cast<std::int32_t>(best.key));
    if (!result) return;
    merge(best.pair, *result);
    queue_gained();
  }
}

std::uint32_t MergeLearner::pair_of(std::int32_t left, std::int32_t right) {
  const auto key = PairMap::key(left, right);
  const auto fresh = static_cast<std::uint32_t>(pairs_.size());
  const auto index = index_.find_or_insert(key, fresh);
  if (index == fresh) pairs_.push_back({.key = key, .words = {}});
  return index;
}

void MergeLearner::gain(std::int32_t left, std::int32_t right, std::uint32_t word) {
  const std::uint32_t index = pair_of(left, right);
  Pair& pair = pairs_[index];
  pair.count += words_[word].count;
  if (pair.words.empty() || pair.words.back() != word) pair.words.push_back(word);
  gained_.push_back(index);
}

void MergeLearner::lose(std::int32_t left, std::int32_t right, std::uint32_t word) {
  pairs_[pair_of(left, right)].count -= words_[word].count;
}

void MergeLearner::queue(std::uint32_t pair) {
  pairs_[pair].queued = pairs_[pair].count;
  queue_.push({pairs_[pair].count, pairs_[pair].key, pair});
}

void MergeLearner::queue_gained() {
  for (const auto pair : gained_) {
    if (pairs_[pair].count > pairs_[pair].queued) queue(pair);
  }
  gained_.clear();
}

void MergeLearner::merge(std::uint32_t pair, std::int32_t result) {
  const std::uint64_t key = pairs_[pair].key;
  const auto words = std::exchange(pairs_[pair].words, {});
  for (const auto word : words) {
    merge_in_word(static_cast<std::int32_t>(key >> 32), static_cast<std::int32_t>(key), result,
                  word);
  }
}

void MergeLearner::merge_in_word(std::int32_t left, std::int32_t right, std::int32_t result,
                                 std::uint32_t index) {
  Word& word = words_[index];
  const std::span<std::int32_t> symbols(symbols_.data() + word.begin, word.length);
  std::size_t written = 0;
  for (std::size_t read = 0; read < symbols.size(); ++read) {
    if (read + 1 == symbols.size() || symbols[read] != left || symbols[read + 1] != right) {
      symbols[written++] = symbols[read];
      continue;
    }
    lose(left, right, index);
    if (written > 0) {
      lose(symbols[written - 1], left, index);
      gain(symbols[written - 1], result, index);
    }
    if (read + 2 < symbols.size()) {
      lose(right, symbols[read + 2], index);
      gain(result, symbols[read + 2], index);
    }
    symbols[written++] = result;
    ++read;
  }
  word.length = written;
}

}  // namespace phalanx
