#pragma once
// What the files beside a tokenizer.json say of special tokens: tokenizer_config.json and
// special_tokens_map.json their contents, config.json and generation_config.json the ids of some.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "phalanx/tokenizer/hf/beside_files.h"
#include "phalanx/tokenizer/tokenizer.h"

namespace phalanx {

// The id of a token's content, if there is such a token.
using TokenLookup = std::function<std::optional<std::int32_t>(std::string_view content)>;

// Sentinels are the tokens <extra_id_0>, <extra_id_1>, ... The end of document is the eos token, if
// a file names one. DataError if a file names a token or id that the tokenizer does not have.
SpecialTokens read_special_tokens(const BesideFiles& files, const TokenLookup& lookup,
                                  std::int64_t vocab_size);

}  // namespace phalanx
