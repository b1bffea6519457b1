#include "phalanx/families/target_tokens.h"

#include <limits>
#include <optional>
#include <string_view>

#include "phalanx/base/error.h"
#include "phalanx/flags/model_arguments.h"

namespace phalanx {
namespace {

std::vector<std::int32_t> stored_ids(const std::map<std::string, std::string>& arguments,
                                     std::string_view argument,
                                     std::optional<std::int32_t> otherwise) {
  const ModelArguments imported(arguments);
  std::vector<std::int32_t> ids;
  for (const std::int64_t id : imported.ids(argument)) {
    if (id < 0 || id > std::numeric_limits<std::int32_t>::max()) {
      throw DataError("the checkpoint's argument {} is no token id: {}", argument, id);
    }
    ids.push_back(static_cast<std::int32_t>(id));
  }
  if (ids.empty() && otherwise) ids.push_back(*otherwise);
  return ids;
}

}  // namespace

TargetTokens find_target_tokens(const Tokenizer& tokenizer,
                                const std::map<std::string, std::string>& arguments) {
  const SpecialTokens& special = tokenizer.special_tokens();
  const auto begin = stored_ids(arguments, kConfigDecoderStart,
                                special.decoder_start ? special.decoder_start : special.bos);
  return {.begin = begin.empty() ? -1 : begin.front(),
          .ends = stored_ids(arguments, kGenerationEos, special.eos)};
}

TargetTokens target_tokens(const Tokenizer& tokenizer,
                           const std::map<std::string, std::string>& arguments) {
  TargetTokens tokens = find_target_tokens(tokenizer, arguments);
  const bool has_begin = tokens.begin >= 0;
  if (!has_begin || tokens.ends.empty()) {
    throw ConfigError("--tokenizer-type {} has no {} token, which a T5's decoder {} with",
                      tokenizer.name(), has_begin ? "[EOS]" : "[BOS]",
                      has_begin ? "ends" : "begins");
  }
  return tokens;
}

std::int32_t find_padding(const Tokenizer& tokenizer,
                          const std::map<std::string, std::string>& arguments) {
  const auto ids = stored_ids(arguments, kConfigPad, tokenizer.special_tokens().pad);
  return ids.empty() ? -1 : ids.front();
}

}  // namespace phalanx
