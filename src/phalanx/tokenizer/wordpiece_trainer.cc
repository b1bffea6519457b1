#include "phalanx/tokenizer/wordpiece_trainer.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/file.h"
#include "phalanx/base/log.h"
#include "phalanx/tokenizer/merge_learner.h"
#include "phalanx/tokenizer/unicode.h"

namespace phalanx {
namespace {

constexpr std::string_view kContinued = "##";
constexpr std::size_t kLongestWord = 200;

}  // namespace

// The tokens so far, and their ids.
class WordPieceTrainer::Vocabulary {
 public:
  // The id of a token, which is added if it is new.
  std::int32_t id_of(const std::string& token) {
    const auto [entry, is_new] = ids_.try_emplace(token, static_cast<std::int32_t>(tokens_.size()));
    if (is_new) tokens_.push_back(token);
    return entry->second;
  }
  std::optional<std::int32_t> find(const std::string& token) const {
    const auto found = ids_.find(token);
    return found == ids_.end() ? std::nullopt : std::optional(found->second);
  }
  std::string merged(std::int32_t left, std::int32_t right) const {
    const std::string& end = tokens_[static_cast<std::size_t>(right)];
    return tokens_[static_cast<std::size_t>(left)] +
           (end.starts_with(kContinued) ? end.substr(kContinued.size()) : end);
  }
  std::int64_t size() const { return std::ssize(tokens_); }
  std::vector<std::string> take_tokens() && { return std::move(tokens_); }

 private:
  std::vector<std::string> tokens_;
  std::unordered_map<std::string, std::int32_t> ids_;
};

WordPieceTrainer::WordPieceTrainer(const WordPieceTrainerOptions& options)
    : options_(options), words_(options.lower_case) {
  constexpr std::int64_t kLimit = std::numeric_limits<std::int32_t>::max();
  const std::int64_t least = std::ssize(options.special_tokens) + 1;
  if (options.vocab_size < least || options.vocab_size > kLimit) {
    throw ConfigError("--vocab-size {} is out of range: WordPiece takes {} to {}",
                      options.vocab_size, least, kLimit);
  }
  if (options.min_frequency < 1) {
    throw ConfigError("--min-frequency {} is out of range: at least 1", options.min_frequency);
  }
  if (options.limit_alphabet < 1) {
    throw ConfigError("--limit-alphabet {} is out of range: at least 1", options.limit_alphabet);
  }
}

void WordPieceTrainer::add_text(std::string_view text) {
  words_.read(text, [this](std::string_view word) { add_word(word, 1); });
}

void WordPieceTrainer::add_words_of(const WordPieceTrainer& other) {
  for (const auto& [word, count] : other.counts_) add_word(word, count);
}

void WordPieceTrainer::add_word(std::string_view word, std::int64_t count) {
  if (word.size() > kLongestWord && count_characters(word) > kLongestWord) return;
  auto entry = counts_.find(word);
  if (entry == counts_.end()) entry = counts_.emplace(word, 0).first;
  entry->second += count;
}

std::vector<char32_t> WordPieceTrainer::alphabet() const {
  std::unordered_map<char32_t, std::int64_t> counts;
  for (const auto& [word, count] : counts_) {
    for (std::string_view rest = word; !rest.empty();) counts[take_character(rest)] += count;
  }
  std::vector<std::pair<std::int64_t, char32_t>> by_count;
  for (const auto& [character, count] : counts) by_count.emplace_back(-count, character);
  std::ranges::sort(by_count);
  if (std::ssize(by_count) > options_.limit_alphabet) {
    by_count.resize(static_cast<std::size_t>(options_.limit_alphabet));
  }
  std::vector<char32_t> kept;
  for (const auto& [count, character] : by_count) kept.push_back(character);
  std::ranges::sort(kept);
  return kept;
}

std::vector<std::string> WordPieceTrainer::train() const {
  Vocabulary vocabulary;
  for (const std::string& token : options_.special_tokens) vocabulary.id_of(token);
  for (const char32_t character : alphabet()) vocabulary.id_of(utf8_of(character));

  std::set<char32_t> continued;
  for (const auto& [word, count] : counts_) {
    std::string_view rest = word;
    for (take_character(rest); !rest.empty();) continued.insert(take_character(rest));
  }
  for (const char32_t character : continued) {
    const std::string text = utf8_of(character);
    if (vocabulary.find(text)) vocabulary.id_of(std::string(kContinued) + text);
  }

  MergeLearner learner;
  std::vector<std::int32_t> symbols;
  for (const auto& [word, count] : counts_) {
    symbols.clear();
    for (std::string_view rest = word; !rest.empty();) {
      const bool is_first = rest.size() == word.size();
      const std::string character = utf8_of(take_character(rest));
      const auto id = vocabulary.find(is_first ? character : std::string(kContinued) + character);
      if (id) symbols.push_back(*id);
    }
    learner.add_word(symbols, count);
  }
  learner.learn(options_.min_frequency,
                [&](std::int32_t left, std::int32_t right) -> std::optional<std::int32_t> {
                  if (vocabulary.size() >= options_.vocab_size) return std::nullopt;
                  return vocabulary.id_of(vocabulary.merged(left, right));
                });
  if (vocabulary.size() < options_.vocab_size) {
    log_warning(
        "the text is too small for --vocab-size {}: no pair left reaches the minimum frequency of "
        "{}; the vocabulary has {} tokens",
        options_.vocab_size, options_.min_frequency, vocabulary.size());
  } else if (vocabulary.size() > options_.vocab_size) {
    log_warning(
        "--vocab-size {} is too small for the characters of the text: the vocabulary has {} "
        "tokens; --limit-alphabet keeps fewer of them",
        options_.vocab_size, vocabulary.size());
  }
  return std::move(vocabulary).take_tokens();
}

void write_wordpiece_file(const std::vector<std::string>& tokens,
                          const std::filesystem::path& path) {
  std::string text;
  for (const std::string& token : tokens) text += token + '\n';
  write_file_durably(path, text);
}

}  // namespace phalanx
