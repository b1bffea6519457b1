#pragma once
// Tokenizers by ranked tokens, as tiktoken does it: a word that is a token is that token; in any
// other, the leftmost adjacent pair whose concatenation has the lowest rank is merged, until none
// has one. decode(encode(x)) == x for any bytes x.
//
//   TikTokenizer  Megatron-LM's: special tokens have the ids 0 to n - 1, the others rank + n
//   tiktoken      OpenAI's files: ids are ranks; special tokens have the ids behind them

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "phalanx/tokenizer/byte_bpe.h"
#include "phalanx/tokenizer/registry.h"
#include "phalanx/tokenizer/special_finder.h"
#include "phalanx/tokenizer/word_splitter.h"

namespace phalanx {

class TiktokenTokenizer final : public Tokenizer {
 public:
  static constexpr std::string_view kMegatronName = "TikTokenizer";
  static constexpr std::string_view kOpenAiName = "tiktoken";

  struct Tables {
    std::string_view name;                        // one of the two
    std::vector<std::string> tokens;              // by rank, as tiktoken_files.h reads them
    std::int32_t first_id = 0;                    // of rank 0
    std::map<std::int32_t, std::string> special;  // by id; outside those of the ranks
    std::int64_t vocab_size = 0;                  // above all of these ids
    std::string pattern;                          // as patterns.h gives it
  };
  explicit TiktokenTokenizer(Tables tables);

  std::string_view name() const override { return tables_.name; }
  std::int64_t vocab_size() const override { return tables_.vocab_size; }
  const SpecialTokens& special_tokens() const override { return special_; }
  // The bytes as GPT-2's symbols (byte_symbols.h).
  std::string piece(std::int32_t id) const override;

 private:
  std::vector<std::int32_t> encode_text(std::string_view text,
                                        const EncodeOptions& options) const override;
  // An id that no token has is no text.
  std::string decode_ids(std::span<const std::int32_t> ids,
                         const DecodeOptions& options) const override;
  // The bytes of a token that is not special; empty where no token has the id.
  std::string_view bytes_of(std::int32_t id) const;

  Tables tables_;
  SpecialTokens special_;
  SpecialFinder finder_;
  WordSplitter splitter_;
  ByteBpe bpe_;
};

// From a JSON list; ConfigError for a --vocab-size that leaves no room.
std::unique_ptr<Tokenizer> make_megatron_tiktoken_tokenizer(const TokenizerOptions& options);
// From lines of ranks. Special tokens are NAME or NAME=ID; without an ID they count up from the id
// behind the last one.
std::unique_ptr<Tokenizer> make_tiktoken_tokenizer(const TokenizerOptions& options);

}  // namespace phalanx
