#include "phalanx/tokenizer/bpe_trainer.h"

#include <algorithm>
#include <array>
#include <limits>
#include <queue>
#include <utility>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/base/file.h"
#include "phalanx/base/log.h"
#include "phalanx/tokenizer/byte_symbols.h"
#include "phalanx/tokenizer/pair_map.h"
#include "phalanx/tokenizer/patterns.h"

namespace phalanx {
namespace {

constexpr std::size_t kLongestWord = 1024;

// The state of learning: every distinct word as a list of ids, and for each pair its count and the
// words it is in.
class MergeLearner {
 public:
  MergeLearner() {
    for (int id = 0; id < kByteSymbols; ++id) {
      const std::uint8_t byte = byte_of_symbol(id);
      byte_ids_[byte] = id;
      tables_.tokens.emplace_back(1, static_cast<char>(byte));
    }
  }

  void add_word(std::string_view text, std::int64_t count) {
    PHALANX_CHECK(words_.size() < PairMap::kNone, "{} distinct words", words_.size());
    const auto index = static_cast<std::uint32_t>(words_.size());
    words_.push_back({symbols_.size(), text.size(), count});
    for (const char c : text) symbols_.push_back(byte_ids_[static_cast<std::uint8_t>(c)]);
    for (std::size_t i = symbols_.size() - text.size(); i + 1 < symbols_.size(); ++i) {
      gain(symbols_[i], symbols_[i + 1], index);
    }
  }

  // Merges until there are `tokens` tokens or no pair occurs `min_frequency` times.
  void learn(std::int64_t tokens, std::int64_t min_frequency) {
    queue_new_pairs();
    while (std::ssize(tables_.tokens) < tokens && !queue_.empty()) {
      const Candidate best = queue_.top();
      queue_.pop();
      const std::int64_t count = pairs_[best.pair].count;
      if (count < min_frequency) continue;
      if (count != best.count) {  // it lost occurrences since it was queued
        queue_.push({count, best.key, best.pair});
        continue;
      }
      merge(best.pair);
      queue_new_pairs();
    }
  }

  BpeTables take_tables() && { return std::move(tables_); }

 private:
  struct Word {
    std::size_t begin;  // in symbols_
    std::size_t length;
    std::int64_t count;
  };
  struct Pair {
    std::uint64_t key;
    std::int64_t count = 0;
    std::vector<std::uint32_t> words;  // where it was gained: may repeat, may be out of date
  };
  struct Candidate {
    std::int64_t count;
    std::uint64_t key;
    std::uint32_t pair;  // in pairs_
    friend bool operator<(const Candidate& a, const Candidate& b) {
      return a.count != b.count ? a.count < b.count : a.key > b.key;
    }
  };

  Pair& pair_of(std::int32_t left, std::int32_t right) {
    const auto key = PairMap::key(left, right);
    const auto fresh = static_cast<std::uint32_t>(pairs_.size());
    const auto index = index_.find_or_insert(key, fresh);
    if (index == fresh) pairs_.push_back({key, 0, {}});
    return pairs_[index];
  }
  void gain(std::int32_t left, std::int32_t right, std::uint32_t word) {
    Pair& pair = pair_of(left, right);
    pair.count += words_[word].count;
    if (pair.words.empty() || pair.words.back() != word) pair.words.push_back(word);
  }
  void lose(std::int32_t left, std::int32_t right, std::uint32_t word) {
    pair_of(left, right).count -= words_[word].count;
  }

  // Only pairs with the newest token gain occurrences, so those that were there keep an upper bound
  // in the queue.
  void queue_new_pairs() {
    for (; queued_ < pairs_.size(); ++queued_) {
      const Pair& pair = pairs_[queued_];
      queue_.push({pair.count, pair.key, static_cast<std::uint32_t>(queued_)});
    }
  }

  void merge(std::uint32_t pair) {
    const std::uint64_t key = pairs_[pair].key;
    const auto words = std::exchange(pairs_[pair].words, {});
    const BpeMerge rule{static_cast<std::int32_t>(key >> 32), static_cast<std::int32_t>(key),
                        static_cast<std::int32_t>(tables_.tokens.size())};
    // No two merges make the same bytes: the symbols inside a span that no merge crosses depend on
    // the span alone.
    tables_.tokens.push_back(tables_.tokens[static_cast<std::size_t>(rule.left)] +
                             tables_.tokens[static_cast<std::size_t>(rule.right)]);
    tables_.merges.push_back(rule);
    for (const auto word : words) merge_in_word(rule, word);
  }

  void merge_in_word(const BpeMerge& rule, std::uint32_t index) {
    Word& word = words_[index];
    const std::span<std::int32_t> symbols(symbols_.data() + word.begin, word.length);
    std::size_t written = 0;
    for (std::size_t read = 0; read < symbols.size(); ++read) {
      if (read + 1 == symbols.size() || symbols[read] != rule.left ||
          symbols[read + 1] != rule.right) {
        symbols[written++] = symbols[read];
        continue;
      }
      if (written > 0) {
        lose(symbols[written - 1], rule.left, index);
        gain(symbols[written - 1], rule.result, index);
      }
      if (read + 2 < symbols.size()) {
        lose(rule.right, symbols[read + 2], index);
        gain(rule.result, symbols[read + 2], index);
      }
      symbols[written++] = rule.result;
      ++read;
    }
    word.length = written;
  }

  BpeTables tables_;
  std::array<std::int32_t, kByteSymbols> byte_ids_{};
  std::vector<Word> words_;
  std::vector<std::int32_t> symbols_;
  PairMap index_;  // (left, right) -> pairs_
  std::vector<Pair> pairs_;
  std::size_t queued_ = 0;  // pairs_ up to here have been queued
  std::priority_queue<Candidate> queue_;
};

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

void BpeTrainer::add_text(std::string_view text) {
  WordCursor words(splitter_, text);
  for (auto word = words.next(); !word.empty(); word = words.next()) {
    for (; !word.empty(); word.remove_prefix(std::min(word.size(), kLongestWord))) {
      const std::string_view piece = word.substr(0, kLongestWord);
      auto entry = counts_.find(piece);
      if (entry == counts_.end()) entry = counts_.emplace(piece, 0).first;
      ++entry->second;
    }
  }
}

void BpeTrainer::add_file(const std::filesystem::path& path) {
  const MappedFile file(path);
  const auto bytes = file.bytes();
  add_text({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

BpeTables BpeTrainer::train() const {
  MergeLearner learner;
  for (const auto& [word, count] : counts_) learner.add_word(word, count);
  learner.learn(options_.vocab_size - 1, options_.min_frequency);
  BpeTables tables = std::move(learner).take_tables();
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

BpeTables train_bpe(std::span<const std::filesystem::path> files,
                    const BpeTrainerOptions& options) {
  BpeTrainer trainer(options);
  for (const auto& file : files) trainer.add_file(file);
  return trainer.train();
}

}  // namespace phalanx
