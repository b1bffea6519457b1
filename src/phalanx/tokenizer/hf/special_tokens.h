#pragma once
// What the files beside a tokenizer.json say of special tokens: tokenizer_config.json their
// contents, config.json and generation_config.json the ids of some.

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "phalanx/tokenizer/tokenizer.h"

namespace phalanx {

inline constexpr std::array<const char*, 3> kFilesBesideTokenizer = {
    "tokenizer_config.json", "config.json", "generation_config.json"};

// The id of a token's content, if there is such a token.
using TokenLookup = std::function<std::optional<std::int32_t>(std::string_view content)>;

// Reads the files that exist. Sentinels are the tokens <extra_id_0>, <extra_id_1>, ... The end of
// document is the eos token, if a file names one. DataError if a file names a token or id that the
// tokenizer does not have.
SpecialTokens read_special_tokens(const std::filesystem::path& directory, const TokenLookup& lookup,
                                  std::int64_t vocab_size);

}  // namespace phalanx
