#include "phalanx/tokenizer/wordpiece_tokenizer.h"

#include <algorithm>
#include <limits>
#include <unordered_map>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/file.h"
#include "phalanx/tokenizer/unicode.h"
#include "phalanx/tokenizer/wordpiece_cleanup.h"

namespace phalanx {
namespace {

constexpr std::string_view kContinued = "##";

std::string_view stripped(std::string_view text) {
  const auto is_blank = [](std::string_view character) {
    return is_white_space(take_character(character));
  };
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (!is_blank(text.substr(0, length))) break;
    text.remove_prefix(length);
  }
  while (!text.empty()) {
    std::size_t begin = text.size() - 1;
    while (begin > 0 && (static_cast<std::uint8_t>(text[begin]) & 0xc0U) == 0x80U) --begin;
    if (!is_blank(text.substr(begin))) break;
    text.remove_suffix(text.size() - begin);
  }
  return text;
}

// Appends tokens that the file lacks.
class Appended {
 public:
  Appended(std::vector<std::string>* tokens, const std::string& source)
      : tokens_(tokens), source_(source) {
    ids_.reserve(tokens->size());
    for (std::size_t i = 0; i < tokens->size(); ++i) {
      ids_[(*tokens)[i]] = static_cast<std::int32_t>(i);  // of equal ones the last counts
    }
  }
  std::int32_t required(const std::string& token) const {
    const auto found = ids_.find(token);
    if (found == ids_.end()) {
      throw DataError("{} has no line {}, which BERT's WordPiece needs", source_, token);
    }
    return found->second;
  }
  std::int32_t appended(const std::string& token) {
    const auto [entry, is_new] = ids_.try_emplace(token, static_cast<std::int32_t>(ids_.size()));
    if (is_new) {
      entry->second = static_cast<std::int32_t>(tokens_->size());
      tokens_->push_back(token);
    }
    return entry->second;
  }

 private:
  std::vector<std::string>* tokens_;
  const std::string& source_;
  std::unordered_map<std::string, std::int32_t> ids_;
};

struct WithSpecialTokens {
  std::vector<std::string> tokens;
  SpecialTokens special;
};

WithSpecialTokens with_special_tokens(std::vector<std::string> tokens,
                                      const WordPieceAppended& wanted, const std::string& source) {
  const std::int64_t extra_ids = wanted.extra_ids;
  constexpr std::int64_t kLimit = std::numeric_limits<std::int32_t>::max();
  if (extra_ids < 0 || extra_ids > kLimit - 2 - std::ssize(tokens)) {
    throw ConfigError("--vocab-extra-ids {} is out of range: {} has {} tokens", extra_ids, source,
                      tokens.size());
  }
  SpecialTokens special;
  Appended appended(&tokens, source);
  special.pad = appended.required("[PAD]");
  special.unk = appended.required("[UNK]");
  special.cls = appended.required("[CLS]");
  special.sep = appended.required("[SEP]");
  special.mask = appended.required("[MASK]");
  if (wanted.bos_and_eos) {
    special.bos = appended.appended("[BOS]");
    special.eos = appended.appended("[EOS]");
  }
  special.eod = special.eos ? special.eos : special.sep;
  for (std::int64_t i = 0; i < extra_ids; ++i) {
    special.sentinels.push_back(appended.appended("<extra_id_" + std::to_string(i) + ">"));
  }
  return {std::move(tokens), std::move(special)};
}

}  // namespace

std::vector<std::string> read_wordpiece_file(const std::string& path) {
  const std::string text = read_file(path);
  std::vector<std::string> tokens;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    if (!is_utf8(line)) throw DataError("{}: line {} is no UTF-8", path, tokens.size() + 1);
    tokens.emplace_back(stripped(line));
  }
  return tokens;
}

WordPieceTokenizer::WordPieceTokenizer(WordPieceCase letter_case, std::vector<std::string> tokens,
                                       const WordPieceAppended& appended, const std::string& source)
    : case_(letter_case),
      tokens_(std::move(tokens)),
      words_(letter_case == WordPieceCase::kLower),
      pieces_({}, {}) {
  WithSpecialTokens vocabulary = with_special_tokens(std::move(tokens_), appended, source);
  tokens_ = std::move(vocabulary.tokens);
  special_ = std::move(vocabulary.special);
  pieces_ = GreedyPieces(tokens_, {.continuing_prefix = std::string(kContinued),
                                   .most_characters = 200,
                                   .unknown = *special_.unk});
  std::vector<std::int32_t> special = {*special_.pad, *special_.unk, *special_.cls, *special_.sep,
                                       *special_.mask};
  if (special_.bos) special.insert(special.end(), {*special_.bos, *special_.eos});
  special.insert(special.end(), special_.sentinels.begin(), special_.sentinels.end());
  is_special_.resize(tokens_.size());
  std::vector<std::pair<std::string, std::int32_t>> written;
  for (const std::int32_t id : special) {
    is_special_[static_cast<std::size_t>(id)] = true;
    written.emplace_back(token(id), id);
  }
  finder_ = SpecialFinder(std::move(written));
}

const std::string& WordPieceTokenizer::token(std::int32_t id) const {
  expect_known(id);
  return tokens_[static_cast<std::size_t>(id)];
}

std::vector<std::int32_t> WordPieceTokenizer::encode_text(std::string_view text,
                                                          const EncodeOptions& options) const {
  std::vector<std::int32_t> ids;
  if (options.add_special) ids.push_back(*special_.cls);
  const auto append_data = [&](std::string_view data) {
    words_.read(data, [&](std::string_view word) { pieces_.append_ids(word, ids); });
  };
  while (options.parse_special) {
    const auto found = finder_.find(text);
    if (!found) break;
    append_data(text.substr(0, found->begin));
    ids.push_back(found->id);
    text.remove_prefix(found->begin + found->length);
  }
  append_data(text);
  if (options.add_special) ids.push_back(*special_.sep);
  return ids;
}

std::string WordPieceTokenizer::decode_ids(std::span<const std::int32_t> ids,
                                           const DecodeOptions& options) const {
  std::string text;
  bool is_first = true;
  for (const auto id : ids) {
    std::string word = token(id);
    if (options.skip_special && is_special_[static_cast<std::size_t>(id)]) continue;
    if (!is_first) {
      if (word.starts_with(kContinued)) {
        word.erase(0, kContinued.size());
      } else {
        word.insert(0, " ");
      }
    }
    is_first = false;
    clean_up_wordpiece(word);
    text += word;
  }
  return text;
}

namespace {

std::unique_ptr<Tokenizer> make_wordpiece_tokenizer(WordPieceCase letter_case,
                                                    const TokenizerOptions& options) {
  return std::make_unique<WordPieceTokenizer>(
      letter_case, read_wordpiece_file(options.vocab_file),
      WordPieceAppended{.extra_ids = options.vocab_extra_ids,
                        .bos_and_eos = !options.vocab_file_only},
      options.vocab_file);
}

}  // namespace

std::unique_ptr<Tokenizer> make_wordpiece_lower_case_tokenizer(const TokenizerOptions& options) {
  return make_wordpiece_tokenizer(WordPieceCase::kLower, options);
}

std::unique_ptr<Tokenizer> make_wordpiece_case_tokenizer(const TokenizerOptions& options) {
  return make_wordpiece_tokenizer(WordPieceCase::kKept, options);
}

}  // namespace phalanx
