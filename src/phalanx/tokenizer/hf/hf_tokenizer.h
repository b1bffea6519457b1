#pragma once
// Hugging Face's tokenizer.json: text is normalised, cut and encoded as the file says, with the ids
// of the library `tokenizers`. A directory of a model is read for tokenizer.json and for what its
// other files say of tokens and switches; a file, with those that lie beside it.
//
// Data: tokens that the file calls special are the text that they are; its other added tokens count
// as always. A byte that is no UTF-8 is itself to a byte-level tokenizer, and U+FFFD to others.
// What the file says and this program does not do is a ConfigError that names the place.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "phalanx/tokenizer/hf/added_tokens.h"
#include "phalanx/tokenizer/hf/beside_files.h"
#include "phalanx/tokenizer/hf/decoders.h"
#include "phalanx/tokenizer/hf/models.h"
#include "phalanx/tokenizer/hf/normalizers.h"
#include "phalanx/tokenizer/hf/post_processors.h"
#include "phalanx/tokenizer/hf/pre_tokenizers.h"
#include "phalanx/tokenizer/registry.h"

namespace phalanx {

class HuggingFaceTokenizer final : public Tokenizer {
 public:
  static constexpr std::string_view kName = "HuggingFaceTokenizer";

  explicit HuggingFaceTokenizer(const std::filesystem::path& directory_or_file);
  // A tokenizer.json's text, without other files.
  HuggingFaceTokenizer(std::string_view json, std::string name);

  std::string_view name() const override { return kName; }
  std::int64_t vocab_size() const override { return std::ssize(pieces_); }
  const SpecialTokens& special_tokens() const override { return special_; }
  std::string piece(std::int32_t id) const override { return checked_piece(id); }

 private:
  class Encoding;

  HuggingFaceTokenizer(const JsonNode& root, const BesideFiles& beside);
  std::vector<std::int32_t> encode_text(std::string_view text,
                                        const EncodeOptions& options) const override;
  std::string decode_ids(std::span<const std::int32_t> ids,
                         const DecodeOptions& options) const override;

  void read_pre_tokenizer_and_model(const JsonNode& root);
  // Those of the file.
  std::vector<AddedToken> read_added_tokens(const JsonNode& list);
  // Those that only files beside it have become tokens as well.
  void add_from_beside(const BesideFiles& beside, std::vector<AddedToken>& tokens);
  std::int64_t next_id(const std::vector<AddedToken>& tokens) const;
  void look_for(std::vector<AddedToken> tokens);
  void add_token(const AddedToken& token, const JsonNode& place);
  const std::string& checked_piece(std::int32_t id) const;

  std::unique_ptr<const Normalizer> normalizer_;  // null: none
  PreTokenizers pre_tokenizers_;
  std::unique_ptr<const Model> model_;
  bool model_takes_bytes_ = false;
  AddedTokenMatcher raw_tokens_;         // sought before normalisation
  AddedTokenMatcher normalized_tokens_;  // and behind it
  PostProcessors post_processors_;
  std::unique_ptr<const Decoder> decoder_;  // null: tokens between blanks
  std::vector<std::string> pieces_;         // by id, added ones included
  // What the library decodes an added token to that is sought in normalised text: its content,
  // normalised.
  std::unordered_map<std::int32_t, std::string> normalized_contents_;
  std::vector<bool> is_special_;
  SpecialTokens special_;
  bool splits_special_ = false;  // special tokens stay text, always
};

std::unique_ptr<Tokenizer> make_hugging_face_tokenizer(const TokenizerOptions& options);

// tokenizer.json and those of the files beside it that are there and that the tokenizer is made of.
std::vector<std::filesystem::path> hugging_face_tokenizer_files(
    const std::filesystem::path& directory_or_file);

}  // namespace phalanx
