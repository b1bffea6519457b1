#pragma once
// SentencePiece's two ways from a normalised text to pieces: merging adjacent symbols, best score
// first (BPE), and the segmentation of the best sum of scores (Unigram; Kudo, 2018).

#include <cstdint>
#include <functional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "phalanx/tokenizer/sentencepiece_model.h"
#include "phalanx/tokenizer/sentencepiece_trie.h"

namespace phalanx {

// A stretch of the text and its id.
struct FoundPiece {
  std::string_view text;
  std::int32_t id;
};

// The pieces of a model that a text can become, by their text. Refers to the model, which must
// outlive it.
class SentencePieceIndex {
 public:
  explicit SentencePieceIndex(const SentencePieceModel& model);

  const SentencePieceModel& model() const { return *model_; }
  // Normal, unused and user-defined pieces; -1 for a text that is none of them.
  std::int32_t find(std::string_view text) const;
  // Any piece, the unknown one for a text that is none.
  std::int32_t id_of(std::string_view text) const;
  const SentencePiece& piece(std::int32_t id) const {
    return model_->pieces[static_cast<std::size_t>(id)];
  }
  const SentencePieceTrie& user_defined() const { return user_defined_; }

 private:
  const SentencePieceModel* model_;
  std::unordered_map<std::string_view, std::int32_t> of_text_;
  std::unordered_map<std::string_view, std::int32_t> reserved_;
  SentencePieceTrie user_defined_;
};

// O(n log n) in the bytes of the text. `text` has less than 2^31 bytes, here and below.
std::vector<FoundPiece> merge_pieces(const SentencePieceIndex& index, std::string_view text);

class UnigramSearch {
 public:
  explicit UnigramSearch(const SentencePieceModel& model);
  // O(n times the bytes of the longest piece).
  std::vector<FoundPiece> operator()(const SentencePieceIndex& index, std::string_view text) const;

 private:
  SentencePieceTrie trie_;  // of what a text can become
  float least_score_;       // of normal pieces
};

}  // namespace phalanx
