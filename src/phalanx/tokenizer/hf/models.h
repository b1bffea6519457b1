#pragma once
// A tokenizer.json's model: a piece to ids.

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "phalanx/tokenizer/hf/tokenizer_json.h"
#include "phalanx/tokenizer/hf/vocabulary.h"
#include "phalanx/tokenizer/word_splitter.h"

namespace phalanx {

// Immutable: any number of threads may share one.
class Model {
 public:
  // Gives one piece after the other, and at the end an empty one.
  using NextPiece = std::function<std::string_view()>;

  virtual ~Model() = default;
  virtual const Vocabulary& vocabulary() const = 0;
  // DataError where a piece has no encoding.
  virtual void append_ids(const NextPiece& next, std::vector<std::int32_t>& ids) const = 0;
  // The same for the words of a text.
  virtual void append_ids_of_words(const WordSplitter& splitter, std::string_view text,
                                   std::vector<std::int32_t>& ids) const;
};

// takes_bytes: where the model can, it will be given bytes instead of their symbols
// (byte_symbols.h); is set to whether it will. ConfigError names a type or value that is not
// supported, DataError what contradicts itself.
std::unique_ptr<const Model> make_model(const JsonNode& node, bool& takes_bytes);

std::unique_ptr<const Model> make_bpe_model(const JsonNode& node, bool& takes_bytes);
std::unique_ptr<const Model> make_word_piece_model(const JsonNode& node);
std::unique_ptr<const Model> make_unigram_model(const JsonNode& node);

// The ids of "<0x00>" to "<0xFF>"; -1 where there is no such token.
std::vector<std::int32_t> byte_token_ids(const Vocabulary& vocabulary);

}  // namespace phalanx
