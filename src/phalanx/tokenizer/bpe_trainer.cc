#include "phalanx/tokenizer/bpe_trainer.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/base/log.h"
#include "phalanx/tokenizer/byte_symbols.h"
#include "phalanx/tokenizer/merge_learner.h"
#include "phalanx/tokenizer/patterns.h"

namespace phalanx {
namespace {

constexpr std::size_t kLongestWord = 1024;

}  // namespace

BpeTrainer::BpeTrainer(const BpeTrainerOptions& options)
    : options_(options), splitter_(pattern_named("gpt2")) {
  constexpr std::int64_t kLimit = std::numeric_limits<std::int32_t>::max();
  if (options.vocab_size <= kByteSymbols || options.vocab_size > kLimit) {
    throw ConfigError("--vocab-size {} is out of range: {} byte symbols and {} need {} to {}",
                      options.vocab_size, kByteSymbols, kEndOfText, kByteSymbols + 1, kLimit);
  }
  if (options.min_frequency < 1) {
    throw ConfigError("--min-frequency {} is out of range: at least 1", options.min_frequency);
  }
}

void BpeTrainer::add_word(std::string_view word, std::int64_t count) {
  auto entry = counts_.find(word);
  if (entry == counts_.end()) entry = counts_.emplace(word, 0).first;
  entry->second += count;
}

void BpeTrainer::add_text(std::string_view text) {
  WordCursor words(splitter_, text);
  for (auto word = words.next(); !word.empty(); word = words.next()) {
    for (; !word.empty(); word.remove_prefix(std::min(word.size(), kLongestWord))) {
      add_word(word.substr(0, kLongestWord), 1);
    }
  }
}

void BpeTrainer::add_words_of(const BpeTrainer& other) {
  for (const auto& [word, count] : other.counts_) add_word(word, count);
}

BpeTables BpeTrainer::train() const {
  BpeTables tables;
  std::array<std::int32_t, kByteSymbols> byte_ids{};
  for (int id = 0; id < kByteSymbols; ++id) {
    const std::uint8_t byte = byte_of_symbol(id);
    byte_ids[byte] = id;
    tables.tokens.emplace_back(1, static_cast<char>(byte));
  }
  MergeLearner learner;
  std::vector<std::int32_t> symbols;
  for (const auto& [word, count] : counts_) {
    symbols.clear();
    for (const char c : word) symbols.push_back(byte_ids[static_cast<std::uint8_t>(c)]);
    learner.add_word(symbols, count);
  }
  // No two merges make the same bytes: the symbols inside a span that no merge crosses depend on
  // the span alone.
  learner.learn(options_.min_frequency,
                [&](std::int32_t left, std::int32_t right) -> std::optional<std::int32_t> {
                  if (std::ssize(tables.tokens) >= options_.vocab_size - 1) return std::nullopt;
                  const auto id = static_cast<std::int32_t>(tables.tokens.size());
                  tables.tokens.push_back(tables.tokens[static_cast<std::size_t>(left)] +
                                          tables.tokens[static_cast<std::size_t>(right)]);
                  tables.merges.push_back({left, right, id});
                  return id;
                });
  tables.end_of_text = static_cast<std::int32_t>(tables.tokens.size());
  tables.tokens.emplace_back(kEndOfText);
  if (std::ssize(tables.tokens) < options_.vocab_size) {
    log_warning(
        "the text is too small for --vocab-size {}: no pair left reaches the minimum frequency of "
        "{}; the "
        "vocabulary has {} tokens",
        options_.vocab_size, options_.min_frequency, tables.tokens.size());
  }
  return tables;
}

}  // namespace phalanx
