// The model BPE of tokenizer.json: bytes (byte_bpe.h) or characters, merged (bpe_merges.h).

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>

#include "phalanx/tokenizer/bpe_merges.h"
#include "phalanx/tokenizer/byte_bpe.h"
#include "phalanx/tokenizer/byte_symbols.h"
#include "phalanx/tokenizer/hf/models.h"
#include "phalanx/tokenizer/unicode.h"

namespace phalanx {
namespace {

using Ids = std::vector<std::int32_t>;

// The two parts of "left right" or ["left", "right"].
std::pair<std::string, std::string> parts_of_merge(const JsonNode& node) {
  if (node.is_array()) {
    const auto parts = node.elements();
    if (parts.size() == 2) return {parts[0].text(), parts[1].text()};
  } else {
    const std::string text = node.text();
    const std::size_t blank = text.find(' ');
    if (blank != std::string::npos && text.find(' ', blank + 1) == std::string::npos) {
      return {text.substr(0, blank), text.substr(blank + 1)};
    }
  }
  node.reject("expected two tokens, \"left right\" or [\"left\", \"right\"]");
}

BpeMerges read_merges(const JsonNode& list, const Vocabulary& vocabulary) {
  const auto nodes = list.elements();
  std::vector<BpeMerge> merges;
  merges.reserve(nodes.size());
  for (const JsonNode& node : nodes) {
    const auto [left, right] = parts_of_merge(node);
    const auto id_of = [&](const std::string& token) {
      const auto id = vocabulary.find(token);
      if (!id) node.reject("{} is not in the vocabulary", shown_text(token));
      return *id;
    };
    merges.push_back({id_of(left), id_of(right), id_of(left + right)});
  }
  // Of equal pairs the last one counts; result.add() keeps the first, so they are added backwards.
  BpeMerges result(BpeMerges::Order::kAtOnce);
  for (std::size_t rank = merges.size(); rank-- > 0;) {
    result.add(merges[rank], static_cast<std::uint32_t>(rank));
  }
  return result;
}

// The id of each byte's symbol; nothing where one is missing.
std::optional<std::array<std::int32_t, kByteSymbols>> ids_of_bytes(const Vocabulary& vocabulary) {
  std::array<std::int32_t, kByteSymbols> ids{};
  for (int byte = 0; byte < kByteSymbols; ++byte) {
    const char c = static_cast<char>(byte);
    const auto id = vocabulary.find(symbols_from_bytes({&c, 1}));
    if (!id) return std::nullopt;
    ids[static_cast<std::size_t>(byte)] = *id;
  }
  return ids;
}

// Tokens that are words of their own, by their bytes.
ByteBpe::WholeWords whole_words(const Vocabulary& vocabulary) {
  ByteBpe::WholeWords words;
  for (std::size_t id = 0; id < vocabulary.tokens().size(); ++id) {
    auto bytes = bytes_from_symbols(vocabulary.tokens()[id]);
    if (bytes && !bytes->empty()) words.emplace(*std::move(bytes), static_cast<std::int32_t>(id));
  }
  return words;
}

// BPE over bytes, each of which is a token, so that every text has tokens.
class ByteBpeModel final : public Model {
 public:
  ByteBpeModel(Vocabulary vocabulary, const std::array<std::int32_t, kByteSymbols>& byte_ids,
               BpeMerges merges, bool ignore_merges)
      : vocabulary_(std::move(vocabulary)),
        bpe_(byte_ids, std::move(merges),
             ignore_merges ? whole_words(vocabulary_) : ByteBpe::WholeWords{}) {}

  const Vocabulary& vocabulary() const override { return vocabulary_; }
  void append_ids(const NextPiece& next, Ids& ids) const override { bpe_.append_ids(next, ids); }
  void append_ids_of_words(const WordSplitter& splitter, std::string_view text,
                           Ids& ids) const override {
    bpe_.append_ids(splitter, text, ids);
  }

 private:
  Vocabulary vocabulary_;
  ByteBpe bpe_;
};

// BPE over characters.
class CharacterBpeModel final : public Model {
 public:
  CharacterBpeModel(const JsonNode& node, Vocabulary vocabulary, BpeMerges merges);

  const Vocabulary& vocabulary() const override { return vocabulary_; }
  void append_ids(const NextPiece& next, Ids& ids) const override;

 private:
  class PieceEncoder;

  // The ids to merge: one for each character, or for each of its bytes.
  void append_parts(std::string_view piece, Ids& ids) const;
  bool append_fallback(std::string_view character, Ids& ids) const;
  std::int32_t unknown() const;

  Vocabulary vocabulary_;
  BpeMerges merges_;
  std::optional<JsonNode> unk_token_;
  std::optional<std::int32_t> unk_;
  bool fuse_unk_;
  bool ignore_merges_;
  Ids fallback_ids_;  // by byte; empty without byte_fallback
  std::unordered_map<char32_t, std::int32_t> character_ids_;
};

// One piece after the other, remembering short ones: natural text repeats its words.
class CharacterBpeModel::PieceEncoder {
 public:
  explicit PieceEncoder(const CharacterBpeModel& model) : model_(model) {}

  void append_ids(std::string_view piece, Ids& ids) {
    if (piece.size() > kLongestKept) return append_new(piece, ids);
    auto met = met_.find(piece);
    if (met == met_.end()) {
      if (met_.size() == kMostKept) forget();
      const std::size_t begin = kept_ids_.size();
      append_new(piece, kept_ids_);
      met = met_.emplace(piece, Place{begin, kept_ids_.size() - begin}).first;
    }
    const auto first = kept_ids_.begin() + static_cast<std::ptrdiff_t>(met->second.begin);
    ids.insert(ids.end(), first, first + static_cast<std::ptrdiff_t>(met->second.count));
  }

 private:
  static constexpr std::size_t kLongestKept = 64;  // bytes
  static constexpr std::size_t kMostKept = 32768;  // pieces; starting afresh follows a text
  struct Place {
    std::size_t begin;
    std::size_t count;
  };
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };

  void append_new(std::string_view piece, Ids& ids) {
    if (model_.ignore_merges_) {
      if (const auto whole = model_.vocabulary_.find(piece)) return ids.push_back(*whole);
    }
    const std::size_t begin = ids.size();
    model_.append_parts(piece, ids);
    const auto parts = std::span(ids).subspan(begin);
    ids.resize(begin + model_.merges_.apply(parts, workspace_));
  }

  void forget() {
    met_.clear();
    kept_ids_.clear();
  }

  const CharacterBpeModel& model_;
  BpeMerges::Workspace workspace_;
  std::unordered_map<std::string, Place, Hash, std::equal_to<>> met_;
  Ids kept_ids_;
};

CharacterBpeModel::CharacterBpeModel(const JsonNode& node, Vocabulary vocabulary, BpeMerges merges)
    : vocabulary_(std::move(vocabulary)),
      merges_(std::move(merges)),
      unk_token_(node.find("unk_token")),
      fuse_unk_(node.flag_or("fuse_unk", false)),
      ignore_merges_(node.flag_or("ignore_merges", false)) {
  if (unk_token_) unk_ = vocabulary_.find(unk_token_->text());
  if (node.flag_or("byte_fallback", false)) fallback_ids_ = byte_token_ids(vocabulary_);
  for (std::size_t id = 0; id < vocabulary_.tokens().size(); ++id) {
    std::string_view rest = vocabulary_.tokens()[id];
    if (rest.empty()) continue;
    const char32_t character = take_character(rest);
    if (rest.empty()) character_ids_.emplace(character, static_cast<std::int32_t>(id));
  }
}

void CharacterBpeModel::append_ids(const NextPiece& next, Ids& ids) const {
  PieceEncoder encoder(*this);
  for (auto piece = next(); !piece.empty(); piece = next()) encoder.append_ids(piece, ids);
}

std::int32_t CharacterBpeModel::unknown() const {
  // This is an error only if a text needs the token: many files name one and never need it.
  if (!unk_) {
    throw DataError("{}: {} is not in the vocabulary, and a character of the text is unknown",
                    unk_token_->place(), shown_text(unk_token_->text()));
  }
  return *unk_;
}

bool CharacterBpeModel::append_fallback(std::string_view character, Ids& ids) const {
  if (fallback_ids_.empty()) return false;
  const auto id_of = [&](char c) { return fallback_ids_[static_cast<std::uint8_t>(c)]; };
  if (std::ranges::any_of(character, [&](char c) { return id_of(c) < 0; })) return false;
  for (const char c : character) ids.push_back(id_of(c));
  return true;
}

void CharacterBpeModel::append_parts(std::string_view piece, Ids& ids) const {
  // An unknown character is written when the next known one comes, so behind the bytes of those
  // between: the library does so.
  bool pending = false;
  const auto flush = [&] {
    if (pending) ids.push_back(unknown());
    pending = false;
  };
  while (!piece.empty()) {
    const std::string_view before = piece;
    const auto known = character_ids_.find(take_character(piece));
    if (known != character_ids_.end()) {
      flush();
      ids.push_back(known->second);
      continue;
    }
    if (append_fallback(before.substr(0, before.size() - piece.size()), ids)) continue;
    if (!fuse_unk_) flush();
    pending = unk_token_.has_value();
  }
  flush();
}

}  // namespace

std::unique_ptr<const Model> make_bpe_model(const JsonNode& node, bool& takes_bytes) {
  node.allow({"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
              "fuse_unk", "byte_fallback", "ignore_merges", "vocab", "merges"});
  if (const auto dropout = node.find("dropout"); dropout && dropout->number() != 0) {
    dropout->refuse("dropout is not supported: a text has one encoding");
  }
  for (const char* affix : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const auto found = node.find(affix);
    if (found && !found->text().empty()) found->refuse("only \"\" and null are supported");
  }
  Vocabulary vocabulary = Vocabulary::of_object(node["vocab"]);
  BpeMerges merges = read_merges(node["merges"], vocabulary);
  const auto byte_ids = takes_bytes ? ids_of_bytes(vocabulary) : std::nullopt;
  takes_bytes = byte_ids.has_value();
  if (byte_ids) {
    return std::make_unique<ByteBpeModel>(std::move(vocabulary), *byte_ids, std::move(merges),
                                          node.flag_or("ignore_merges", false));
  }
  return std::make_unique<CharacterBpeModel>(node, std::move(vocabulary), std::move(merges));
}

}  // namespace phalanx
