#pragma once
// Megatron-LM's tokenizers over a SentencePiece model (--tokenizer-model FILE).
//
// SentencePieceTokenizer: behind the model's pieces stand, where they are absent, <CLS>, <SEP>,
// <EOD>, <MASK>, the model's padding, beginning and end (<PAD>, <BOS>, <EOS> where it has none) and
// the sentinels <extra_id_0>, ...; a document ends with <EOD>. Decoded, each of them stands between
// blanks. GPTSentencePieceTokenizer and Llama2Tokenizer: the model's ids; a document ends with its
// end piece, where it has one; the latter adds the beginning in front of a text, the former may
// have sentinels behind the pieces, <extra_id_0> last, as transformers' T5Tokenizer.
//
// Texts between special tokens that are parsed are encoded each for itself, with the blank in front
// that the model asks for. A byte that is no UTF-8 reads as U+FFFD.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/tokenizer/registry.h"
#include "phalanx/tokenizer/sentencepiece_engine.h"
#include "phalanx/tokenizer/special_finder.h"

namespace phalanx {

enum class SentencePieceType { kMegatron, kGpt, kLlama2 };

class SentencePieceTokenizer final : public Tokenizer {
 public:
  static constexpr std::string_view kMegatronName = "SentencePieceTokenizer";
  static constexpr std::string_view kGptName = "GPTSentencePieceTokenizer";
  static constexpr std::string_view kLlama2Name = "Llama2Tokenizer";

  // So many sentinels are behind the pieces; of Llama 2 none. `source` names the model in errors.
  SentencePieceTokenizer(SentencePieceType type, SentencePieceModel model, std::int64_t extra_ids,
                         const std::string& source);

  std::string_view name() const override;
  std::int64_t vocab_size() const override { return pieces() + std::ssize(appended_); }
  const SpecialTokens& special_tokens() const override { return special_; }
  std::string piece(std::int32_t id) const override;

 private:
  std::vector<std::int32_t> encode_text(std::string_view text,
                                        const EncodeOptions& options) const override;
  std::string decode_ids(std::span<const std::int32_t> ids,
                         const DecodeOptions& options) const override;
  std::int64_t pieces() const { return std::ssize(engine_.model().pieces); }
  void append_special_tokens(std::int64_t extra_ids, const std::string& source);
  void take_special_tokens_of_model(std::int64_t extra_ids, const std::string& source);
  void check_extra_ids(std::int64_t extra_ids, const std::string& source) const;

  SentencePieceType type_;
  SentencePieceEngine engine_;
  std::vector<std::string> appended_;  // behind the pieces
  SpecialTokens special_;
  std::vector<bool> is_special_;  // by id
  SpecialFinder finder_;
};

std::unique_ptr<Tokenizer> make_sentencepiece_tokenizer(const TokenizerOptions& options);
std::unique_ptr<Tokenizer> make_gpt_sentencepiece_tokenizer(const TokenizerOptions& options);
std::unique_ptr<Tokenizer> make_llama2_tokenizer(const TokenizerOptions& options);

}  // namespace phalanx
