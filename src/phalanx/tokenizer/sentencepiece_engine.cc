#include "phalanx/tokenizer/sentencepiece_engine.h"

#include <algorithm>
#include <limits>
#include <unordered_map>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/tokenizer/unicode.h"

namespace phalanx {
namespace {

// Where the first word of a text ends: blanks, and what follows up to the next blank.
std::size_t word_end(std::string_view text) {
  std::size_t begin = 0;
  while (text.substr(begin).starts_with(kSentencePieceBlank)) begin += kSentencePieceBlank.size();
  return std::min(text.find(kSentencePieceBlank, begin), text.size());
}

// No piece of natural models reaches from one word into the next: "a\u2581" is in none.
bool keeps_words_apart(const SentencePieceModel& model) {
  return std::ranges::all_of(model.pieces, [](const SentencePiece& piece) {
    return word_end(piece.text) == piece.text.size();
  });
}

}  // namespace

SentencePieceEngine::SentencePieceEngine(SentencePieceModel model, const std::string& source)
    : model_(std::move(model)),
      normalizer_(model_.normalizer, model_.whitespace_as_suffix, source),
      index_(model_),
      keeps_words_apart_(keeps_words_apart(model_)) {
  if (model_.denormalizer) {
    denormalizer_.emplace(*model_.denormalizer, model_.whitespace_as_suffix, source);
  }
  if (model_.algorithm == SentencePieceModel::Algorithm::kUnigram) unigram_.emplace(model_);
}

void SentencePieceEngine::encode(std::string_view text, std::vector<std::int32_t>& ids) const {
  constexpr std::size_t kMostBytes = std::numeric_limits<std::int32_t>::max() - 1;
  const std::string normalized = normalizer_.normalized(text, index_.user_defined());
  if (normalized.size() > kMostBytes) {
    throw DataError("one text of {} bytes behind the normaliser; the limit is {}",
                    normalized.size(), kMostBytes);
  }
  const std::vector<FoundPiece> found =
      unigram_ ? (*unigram_)(index_, normalized) : merged(normalized);
  bool is_after_unknown = false;
  for (const FoundPiece& piece : found) {
    const bool is_unknown = piece.id == model_.unknown;
    if (is_unknown && model_.byte_fallback) {
      for (const char byte : piece.text) {
        ids.push_back(model_.byte_ids[static_cast<std::uint8_t>(byte)]);
      }
    } else if (!is_unknown || !is_after_unknown) {
      ids.push_back(piece.id);
    }
    is_after_unknown = is_unknown;
  }
}

// Merges do not reach beyond a word, so a repeated word has the same pieces.
std::vector<FoundPiece> SentencePieceEngine::merged(std::string_view text) const {
  if (!keeps_words_apart_) return merge_pieces(index_, text);
  struct Place {
    std::size_t begin, count;
  };
  std::unordered_map<std::string_view, Place> seen;
  std::vector<FoundPiece> found;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, word_end(text));
    text.remove_prefix(word.size());
    const auto [entry, is_new] = seen.try_emplace(word, Place{found.size(), 0});
    Place& place = entry->second;
    if (is_new) {
      const std::vector<FoundPiece> pieces = merge_pieces(index_, word);
      found.insert(found.end(), pieces.begin(), pieces.end());
      place.count = pieces.size();
      continue;
    }
    for (std::size_t i = 0; i < place.count; ++i) {
      const FoundPiece piece = found[place.begin + i];
      found.push_back(piece);
    }
  }
  return found;
}

// The text of pieces, one after the other.
class SentencePieceEngine::Decoding {
 public:
  explicit Decoding(const SentencePieceEngine& engine) : engine_(engine) {}

  void append(std::int32_t id) {
    const SentencePieceModel& model = engine_.model_;
    const std::string& text = engine_.index_.piece(id).text;
    // If two pieces have the same text, the reserved one counts, as in the library.
    const SentencePiece& piece = engine_.index_.piece(engine_.index_.id_of(text));
    if (piece.kind == PieceKind::kByte) {
      bytes_ += static_cast<char>(std::stoi(piece.text.substr(3, 2), nullptr, 16));
      return;
    }
    flush_bytes();
    if (took_blank_ || !text_.empty()) is_at_start_ = false;
    took_blank_ = false;
    if (piece.kind == PieceKind::kControl) return;
    if (piece.kind == PieceKind::kUnknown) {
      text_ += model.unknown_surface;
      return;
    }
    append_surface(text);
  }

  std::string take_text() && {
    flush_bytes();
    return std::move(text_);
  }

 private:
  // The blank that the normaliser adds in front is removed.
  void append_surface(std::string_view piece) {
    const NormalizerRules& rules = engine_.model_.normalizer;
    if (is_at_start_ && (rules.add_dummy_prefix || rules.remove_extra_whitespaces) &&
        piece.starts_with(kSentencePieceBlank)) {
      piece.remove_prefix(kSentencePieceBlank.size());
      took_blank_ = !rules.remove_extra_whitespaces;
    }
    while (!piece.empty()) {
      const std::size_t blank = std::min(piece.find(kSentencePieceBlank), piece.size());
      text_ += piece.substr(0, blank);
      piece.remove_prefix(blank);
      if (piece.empty()) break;
      text_ += ' ';
      piece.remove_prefix(kSentencePieceBlank.size());
    }
  }
  void flush_bytes() {
    if (bytes_.empty()) return;
    text_ += repaired_utf8(bytes_);
    bytes_.clear();
  }

  const SentencePieceEngine& engine_;
  std::string text_;
  std::string bytes_;        // of byte pieces, not yet in the text
  bool is_at_start_ = true;  // a blank in front belongs to the normaliser
  bool took_blank_ = false;  // the piece before lost it
};

std::string SentencePieceEngine::decode(std::span<const std::int32_t> ids) const {
  Decoding decoding(*this);
  for (const std::int32_t id : ids) decoding.append(id);
  std::string text = std::move(decoding).take_text();
  return denormalizer_ ? denormalizer_->normalized(text, SentencePieceTrie()) : text;
}

}  // namespace phalanx
