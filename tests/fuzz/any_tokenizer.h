#pragma once
// What holds for every tokenizer that any files make, and for any text.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/tokenizer/registry.h"
#include "require.h"

namespace phalanx {

struct AnyTokenizerOptions {
  TokenizerOptions tokenizer;
  bool is_lossless = false;  // what is encoded is decoded as it was, whatever bytes it has
};

// The part behind the last line "===", and what is before it; a text of its own where there is
// none.
inline std::pair<std::string_view, std::string_view> file_and_text(std::string_view input) {
  constexpr std::string_view kSeparator = "\n===\n";
  const auto found = input.rfind(kSeparator);
  if (found == std::string_view::npos) return {input, "A text's 12345  caf\xc3\xa9\n\xff <s> end "};
  return {input.substr(0, found), input.substr(found + kSeparator.size())};
}

inline void check_text(const Tokenizer& tokenizer, std::string_view text, bool is_lossless) {
  const auto check_ids = [&](const std::vector<std::int32_t>& ids) {
    for (const std::int32_t id : ids) {
      require(id >= 0 && id < tokenizer.vocab_size(), "the id {} of {}", id,
              tokenizer.vocab_size());
    }
    tokenizer.decode(ids, {.skip_special = true});
    const std::string decoded = tokenizer.decode(ids);
    require(!is_lossless || decoded == text, "'{}' is decoded as '{}'", text, decoded);
  };
  check_ids(tokenizer.encode(text));
  check_ids(tokenizer.encode(text, {.parse_special = true}));
  is_lossless = false;
  check_ids(tokenizer.encode(text, {.parse_special = true, .add_special = true}));
}

inline void check_special_tokens(const Tokenizer& tokenizer) {
  const SpecialTokens& special = tokenizer.special_tokens();
  const auto check_id = [&](std::int32_t id) {
    require(id >= 0 && id < tokenizer.vocab_size(), "the special token {}", id);
  };
  for (const auto& id : {special.unk, special.cls, special.sep, special.mask, special.pad,
                         special.bos, special.eos, special.eod}) {
    if (id) check_id(*id);
  }
  for (const std::int32_t id : special.sentinels) check_id(id);
}

// Makes the tokenizer, which may be refused with a reason, and tries it.
inline void check_any_tokenizer(const AnyTokenizerOptions& options, std::string_view text) {
  constexpr std::int64_t kMostPieces = 2000;
  try {
    const auto tokenizer = make_tokenizer(options.tokenizer);
    check_special_tokens(*tokenizer);
    const std::int64_t pieces = std::min(tokenizer->vocab_size(), kMostPieces);
    for (std::int64_t id = 0; id < pieces; ++id) tokenizer->piece(static_cast<std::int32_t>(id));
    check_text(*tokenizer, text, options.is_lossless);
    check_text(*tokenizer, "", options.is_lossless);
  } catch (const Error& error) {
    const bool is_refusal =
        error.code() == ErrorCode::kBadData || error.code() == ErrorCode::kConfiguration;
    // A Git LFS pointer stands for a file that is not there.
    const bool is_pointer =
        error.code() == ErrorCode::kInputMissing &&
        std::string_view(error.what()).find("a Git LFS pointer") != std::string_view::npos;
    require(is_refusal || is_pointer, "{}", error.what());
    require(*error.what() != '\0', "an error without a message");
  }
}

}  // namespace phalanx
