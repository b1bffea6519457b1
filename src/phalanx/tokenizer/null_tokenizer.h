#pragma once
// Megatron-LM's NullTokenizer (releases up to core 0.12): text is integers separated by white
// space. With
// --vocab-size N the ids are 0 .. N, N being the end of document, so vocab_size() is N + 1.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/tokenizer/registry.h"

namespace phalanx {

class NullTokenizer final : public Tokenizer {
 public:
  static constexpr std::string_view kName = "NullTokenizer";

  // ConfigError unless 1 <= vocab_size < 2^31 - 1.
  explicit NullTokenizer(std::int64_t vocab_size);

  std::string_view name() const override { return kName; }
  std::int64_t vocab_size() const override { return *special_.eod + std::int64_t{1}; }
  const SpecialTokens& special_tokens() const override { return special_; }
  std::string piece(std::int32_t id) const override;

 private:
  // DataError names the first word that is not an id, and its place.
  std::vector<std::int32_t> encode_text(std::string_view text,
                                        const EncodeOptions& options) const override;
  // The ids in decimal, one space between them.
  std::string decode_ids(std::span<const std::int32_t> ids,
                         const DecodeOptions& options) const override;

  SpecialTokens special_;
};

std::unique_ptr<Tokenizer> make_null_tokenizer(const TokenizerOptions& options);

}  // namespace phalanx
