#pragma once
// GPT-2's byte-level BPE (Sennrich et al., 2016; Radford et al., 2019). The words of
// word_splitter.h become byte symbols, and in each word the pair of lowest rank is merged,
// everywhere from left to right, until no pair has a rank. decode(encode(x)) == x for any bytes x.
// The end of document is <|endoftext|>; that string in a text is encoded as the ordinary
// characters it is, unless special tokens are parsed.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/tokenizer/bpe_files.h"
#include "phalanx/tokenizer/byte_bpe.h"
#include "phalanx/tokenizer/registry.h"
#include "phalanx/tokenizer/word_splitter.h"

namespace phalanx {

class Gpt2BpeTokenizer final : public Tokenizer {
 public:
  static constexpr std::string_view kName = "GPT2BPETokenizer";

  // Tables as read_bpe_files checks them.
  explicit Gpt2BpeTokenizer(BpeTables tables);

  std::string_view name() const override { return kName; }
  std::int64_t vocab_size() const override { return std::ssize(tables_.tokens); }
  const SpecialTokens& special_tokens() const override { return special_; }
  std::string piece(std::int32_t id) const override;

 private:
  std::vector<std::int32_t> encode_text(std::string_view text,
                                        const EncodeOptions& options) const override;
  std::string decode_ids(std::span<const std::int32_t> ids,
                         const DecodeOptions& options) const override;
  const std::string& token(std::int32_t id) const;

  BpeTables tables_;
  SpecialTokens special_;
  WordSplitter splitter_;
  ByteBpe bpe_;
};

// From vocab.json and merges.txt.
std::unique_ptr<Tokenizer> make_gpt2_bpe_tokenizer(const TokenizerOptions& options);

}  // namespace phalanx
