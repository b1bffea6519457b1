#pragma once
// SentencePiece (Kudo and Richardson, 2018): a model at work. Ids and texts are those of Google's
// library, version 0.2.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/tokenizer/sentencepiece_model.h"
#include "phalanx/tokenizer/sentencepiece_normalizer.h"
#include "phalanx/tokenizer/sentencepiece_search.h"

namespace phalanx {

class SentencePieceEngine {
 public:
  // DataError, naming `source`, where the model's map is damaged.
  SentencePieceEngine(SentencePieceModel model, const std::string& source);
  SentencePieceEngine(const SentencePieceEngine&) = delete;
  SentencePieceEngine& operator=(const SentencePieceEngine&) = delete;
  ~SentencePieceEngine() = default;

  const SentencePieceModel& model() const { return model_; }

  // Appends the ids of a text, in which nothing but user-defined pieces is special. What no piece
  // covers is its bytes where the model has them; else a run of it is one unknown piece. DataError
  // for a text of more than 2^31 bytes behind the normaliser.
  void encode(std::string_view text, std::vector<std::int32_t>& ids) const;
  // Control pieces leave nothing, unknown ones the model's sign for them. Ids are the model's.
  std::string decode(std::span<const std::int32_t> ids) const;

 private:
  class Decoding;

  std::vector<FoundPiece> merged(std::string_view text) const;

  SentencePieceModel model_;
  SentencePieceNormalizer normalizer_;
  std::optional<SentencePieceNormalizer> denormalizer_;
  SentencePieceIndex index_;
  bool keeps_words_apart_;
  std::optional<UnigramSearch> unigram_;
};

}  // namespace phalanx
