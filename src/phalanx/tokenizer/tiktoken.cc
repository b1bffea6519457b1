#include "phalanx/tokenizer/tiktoken.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>

#include "phalanx/base/error.h"
#include "phalanx/tokenizer/byte_symbols.h"
#include "phalanx/tokenizer/patterns.h"
#include "phalanx/tokenizer/tiktoken_files.h"

namespace phalanx {
namespace {

using IdsByBytes = std::unordered_map<std::string_view, std::int32_t>;

IdsByBytes ids_by_bytes(const TiktokenTokenizer::Tables& tables) {
  IdsByBytes ids;
  ids.reserve(tables.tokens.size());
  for (std::size_t rank = 0; rank < tables.tokens.size(); ++rank) {
    const std::string& token = tables.tokens[rank];
    if (!token.empty()) ids.emplace(token, tables.first_id + static_cast<std::int32_t>(rank));
  }
  return ids;
}

// Every pair of tokens whose concatenation is a token, ranked as that token is.
ByteBpe byte_bpe_of(const TiktokenTokenizer::Tables& tables) {
  const IdsByBytes ids = ids_by_bytes(tables);
  std::array<std::int32_t, kByteSymbols> byte_ids{};
  BpeMerges merges(BpeMerges::Order::kAtOnce);
  for (std::size_t rank = 0; rank < tables.tokens.size(); ++rank) {
    const std::string_view token = tables.tokens[rank];
    const auto id = tables.first_id + static_cast<std::int32_t>(rank);
    if (token.size() == 1) byte_ids[static_cast<std::uint8_t>(token[0])] = id;
    for (std::size_t cut = 1; cut < token.size(); ++cut) {
      const auto left = ids.find(token.substr(0, cut));
      if (left == ids.end()) continue;
      const auto right = ids.find(token.substr(cut));
      if (right == ids.end()) continue;
      merges.add({left->second, right->second, id}, static_cast<std::uint32_t>(rank));
    }
  }
  return ByteBpe(byte_ids, std::move(merges), {ids.begin(), ids.end()});
}

std::vector<std::pair<std::string, std::int32_t>> names_and_ids(
    const std::map<std::int32_t, std::string>& special) {
  std::vector<std::pair<std::string, std::int32_t>> tokens;
  tokens.reserve(special.size());
  for (const auto& [id, name] : special) tokens.emplace_back(name, id);
  return tokens;
}

// The meanings of the usual names of special tokens.
SpecialTokens meanings(const std::map<std::int32_t, std::string>& special) {
  const auto id_of =
      [&special](std::initializer_list<std::string_view> names) -> std::optional<std::int32_t> {
    for (const auto name : names) {
      for (const auto& [id, text] : special) {
        if (text == name) return id;
      }
    }
    return std::nullopt;
  };
  SpecialTokens tokens;
  tokens.unk = id_of({"<unk>"});
  tokens.bos = id_of({"<s>", "<|begin_of_text|>"});
  tokens.eos = id_of({"</s>", "<|endoftext|>", "<|end_of_text|>"});
  tokens.eod = tokens.eos;
  tokens.mask = id_of({"<mask>"});
  tokens.pad = id_of({"<pad>"});
  tokens.cls = id_of({"<cls>"});
  tokens.sep = id_of({"<sep>"});
  return tokens;
}

void check_unique(const std::vector<std::string>& names) {
  std::set<std::string_view> known;
  for (const auto& name : names) {
    if (name.empty()) throw ConfigError("--tiktoken-special-tokens: one of them is empty");
    if (!known.insert(name).second) {
      throw ConfigError("--tiktoken-special-tokens: '{}' comes twice", name);
    }
  }
}

}  // namespace

TiktokenTokenizer::TiktokenTokenizer(Tables tables)
    : tables_(std::move(tables)),
      special_(meanings(tables_.special)),
      finder_(names_and_ids(tables_.special)),
      splitter_(tables_.pattern),
      bpe_(byte_bpe_of(tables_)) {}

std::vector<std::int32_t> TiktokenTokenizer::encode_text(std::string_view text,
                                                         const EncodeOptions& options) const {
  std::vector<std::int32_t> ids;
  while (options.parse_special) {
    const auto found = finder_.find(text);
    if (!found) break;
    bpe_.append_ids(splitter_, text.substr(0, found->begin), ids);
    ids.push_back(found->id);
    text.remove_prefix(found->begin + found->length);
  }
  bpe_.append_ids(splitter_, text, ids);
  return ids;
}

std::string_view TiktokenTokenizer::bytes_of(std::int32_t id) const {
  expect_known(id);
  const std::int64_t rank = std::int64_t{id} - tables_.first_id;
  if (rank < 0 || rank >= std::ssize(tables_.tokens)) return {};
  return tables_.tokens[static_cast<std::size_t>(rank)];
}

std::string TiktokenTokenizer::piece(std::int32_t id) const {
  const auto special = tables_.special.find(id);
  return special != tables_.special.end() ? special->second : symbols_from_bytes(bytes_of(id));
}

std::string TiktokenTokenizer::decode_ids(std::span<const std::int32_t> ids,
                                          const DecodeOptions& options) const {
  std::string text;
  for (const auto id : ids) {
    const std::string_view bytes = bytes_of(id);
    text += bytes;
    if (!bytes.empty() || options.skip_special) continue;
    const auto special = tables_.special.find(id);
    if (special != tables_.special.end()) text += special->second;
  }
  return text;
}

std::unique_ptr<Tokenizer> make_megatron_tiktoken_tokenizer(const TokenizerOptions& options) {
  if (options.tiktoken_pattern != "v1" && options.tiktoken_pattern != "v2") {
    throw ConfigError("--tiktoken-pattern {} does not belong to {}, which has v1 and v2",
                      options.tiktoken_pattern, TiktokenTokenizer::kMegatronName);
  }
  constexpr std::int64_t kUsualVocabSize = 131072;
  TiktokenTokenizer::Tables tables;
  tables.name = TiktokenTokenizer::kMegatronName;
  tables.vocab_size = options.vocab_size == 0 ? kUsualVocabSize : options.vocab_size;
  const std::int64_t reserved = options.tiktoken_num_special_tokens;
  std::vector<std::string> names = options.tiktoken_special_tokens;
  if (names.empty()) names = {"<unk>", "<s>", "</s>"};
  check_unique(names);
  for (const std::string_view name : {"<unk>", "<s>", "</s>"}) {
    if (std::ranges::find(names, name) == names.end()) {
      throw ConfigError("--tiktoken-special-tokens: {} is missing; {} needs it", name, tables.name);
    }
  }
  if (reserved < std::ssize(names)) {
    throw ConfigError("--tiktoken-num-special-tokens {} is less than the {} special tokens",
                      reserved, names.size());
  }
  if (tables.vocab_size < reserved + kByteSymbols) {
    throw ConfigError("--vocab-size {} is too small: {} special tokens and {} bytes need {}",
                      tables.vocab_size, reserved, kByteSymbols, reserved + kByteSymbols);
  }
  for (std::int32_t id = 0; id < reserved; ++id) {
    tables.special[id] = id < std::ssize(names) ? names[static_cast<std::size_t>(id)]
                                                : fmt::format("<SPECIAL_{}>", id);
  }
  tables.first_id = static_cast<std::int32_t>(reserved);
  tables.tokens = read_megatron_ranks(options.tokenizer_model, tables.vocab_size - reserved);
  tables.pattern = pattern_named(options.tiktoken_pattern);
  return std::make_unique<TiktokenTokenizer>(std::move(tables));
}

std::unique_ptr<Tokenizer> make_tiktoken_tokenizer(const TokenizerOptions& options) {
  TiktokenTokenizer::Tables tables;
  tables.name = TiktokenTokenizer::kOpenAiName;
  tables.pattern = pattern_named(options.tiktoken_pattern);
  tables.tokens = read_tiktoken_ranks(options.tokenizer_model);
  constexpr std::int64_t kLimit = std::numeric_limits<std::int32_t>::max();
  std::int64_t next = std::ssize(tables.tokens);
  tables.vocab_size = next;
  std::vector<std::string> names;
  for (const std::string& given : options.tiktoken_special_tokens) {
    const std::size_t sign = given.rfind('=');
    const char* const end = given.data() + given.size();
    std::string name = given;
    if (sign != std::string::npos) {
      std::int64_t id = 0;
      const auto [stop, error] = std::from_chars(given.data() + sign + 1, end, id);
      if (error == std::errc{} && stop == end) {
        next = id;
        name = given.substr(0, sign);
      }
    }
    const bool taken = next >= 0 && next < std::ssize(tables.tokens) &&
                       !tables.tokens[static_cast<std::size_t>(next)].empty();
    if (next < 0 || next >= kLimit || taken ||
        tables.special.contains(static_cast<std::int32_t>(next))) {
      throw ConfigError("--tiktoken-special-tokens: '{}' cannot have the id {}{}", given, next,
                        taken ? ", which is a rank of the file" : "");
    }
    names.push_back(name);
    tables.special[static_cast<std::int32_t>(next)] = std::move(name);
    tables.vocab_size = std::max(tables.vocab_size, ++next);
  }
  check_unique(names);
  return std::make_unique<TiktokenTokenizer>(std::move(tables));
}

}  // namespace phalanx
