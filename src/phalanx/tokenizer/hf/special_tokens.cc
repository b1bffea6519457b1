#include "phalanx/tokenizer/hf/special_tokens.h"

#include <fmt/format.h>

#include <array>
#include <limits>
#include <utility>

#include "phalanx/tokenizer/hf/tokenizer_json.h"

namespace phalanx {
namespace {

using Field = std::optional<std::int32_t> SpecialTokens::*;

constexpr std::array<std::pair<std::string_view, Field>, 7> kContents = {
    {{"unk_token", &SpecialTokens::unk},
     {"cls_token", &SpecialTokens::cls},
     {"sep_token", &SpecialTokens::sep},
     {"mask_token", &SpecialTokens::mask},
     {"pad_token", &SpecialTokens::pad},
     {"bos_token", &SpecialTokens::bos},
     {"eos_token", &SpecialTokens::eos}}};

constexpr std::array<std::pair<std::string_view, Field>, 4> kIds = {
    {{"bos_token_id", &SpecialTokens::bos},
     {"eos_token_id", &SpecialTokens::eos},
     {"pad_token_id", &SpecialTokens::pad},
     {"decoder_start_token_id", &SpecialTokens::decoder_start}}};

void read_contents(const BesideFiles& files, const TokenLookup& lookup, SpecialTokens& special) {
  for (const auto& [key, field] : kContents) {
    const auto node = files.role(key);
    if (!node) continue;
    const std::string content = node->is_object() ? (*node)["content"].text() : node->text();
    if (content.empty()) continue;
    const auto id = lookup(content);
    if (!id) node->reject("{} is no token of tokenizer.json", shown_text(content));
    special.*field = id;
  }
}

// An id, or a list of which the first counts; negative: none.
std::optional<std::int32_t> read_id(const JsonNode& node, std::int64_t vocab_size) {
  if (node.is_array()) {
    const auto elements = node.elements();
    return elements.empty() ? std::nullopt : read_id(elements[0], vocab_size);
  }
  const std::int64_t id = node.integer(std::numeric_limits<std::int32_t>::min(), vocab_size - 1);
  if (id < 0) return std::nullopt;
  return static_cast<std::int32_t>(id);
}

void read_ids(const JsonNode& config, std::int64_t vocab_size, SpecialTokens& special) {
  for (const auto& [key, field] : kIds) {
    const auto node = config.find(key);
    if (node && !(special.*field)) special.*field = read_id(*node, vocab_size);
  }
}

}  // namespace

SpecialTokens read_special_tokens(const BesideFiles& files, const TokenLookup& lookup,
                                  std::int64_t vocab_size) {
  SpecialTokens special;
  read_contents(files, lookup, special);
  if (files.model()) read_ids(*files.model(), vocab_size, special);
  if (files.generation()) read_ids(*files.generation(), vocab_size, special);
  special.eod = special.eos;
  while (const auto id = lookup(fmt::format("<extra_id_{}>", special.sentinels.size()))) {
    special.sentinels.push_back(*id);
  }
  return special;
}

}  // namespace phalanx
