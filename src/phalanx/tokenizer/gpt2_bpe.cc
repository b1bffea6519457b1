#include "phalanx/tokenizer/gpt2_bpe.h"

#include <algorithm>
#include <array>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/tokenizer/byte_symbols.h"
#include "phalanx/tokenizer/patterns.h"

namespace phalanx {
namespace {

std::array<std::int32_t, kByteSymbols> byte_ids_of(const std::vector<std::string>& tokens) {
  std::array<std::int32_t, kByteSymbols> ids{};
  ids.fill(-1);
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    if (tokens[id].size() != 1) continue;
    ids[static_cast<std::uint8_t>(tokens[id][0])] = static_cast<std::int32_t>(id);
  }
  PHALANX_CHECK(std::ranges::count(ids, -1) == 0, "byte symbols are missing");
  return ids;
}

}  // namespace

Gpt2BpeTokenizer::Gpt2BpeTokenizer(BpeTables tables)
    : tables_(std::move(tables)),
      splitter_(pattern_named("gpt2")),
      bpe_(byte_ids_of(tables_.tokens), BpeMerges(tables_.merges, BpeMerges::Order::kRankByRank)) {
  special_.eos = special_.eod = tables_.end_of_text;
}

std::vector<std::int32_t> Gpt2BpeTokenizer::encode_text(std::string_view text,
                                                        const EncodeOptions& options) const {
  std::vector<std::int32_t> ids;
  while (options.parse_special) {
    const std::size_t at = text.find(kEndOfText);
    if (at == std::string_view::npos) break;
    bpe_.append_ids(splitter_, text.substr(0, at), ids);
    ids.push_back(tables_.end_of_text);
    text.remove_prefix(at + kEndOfText.size());
  }
  bpe_.append_ids(splitter_, text, ids);
  return ids;
}

const std::string& Gpt2BpeTokenizer::token(std::int32_t id) const {
  expect_known(id);
  return tables_.tokens[static_cast<std::size_t>(id)];
}

std::string Gpt2BpeTokenizer::piece(std::int32_t id) const {
  return id == tables_.end_of_text ? token(id) : symbols_from_bytes(token(id));
}

std::string Gpt2BpeTokenizer::decode_ids(std::span<const std::int32_t> ids,
                                         const DecodeOptions& options) const {
  std::string text;
  for (const auto id : ids) {
    if (!options.skip_special || id != tables_.end_of_text) text += token(id);
  }
  return text;
}

std::unique_ptr<Tokenizer> make_gpt2_bpe_tokenizer(const TokenizerOptions& options) {
  auto tokenizer =
      std::make_unique<Gpt2BpeTokenizer>(read_bpe_files(options.vocab_file, options.merge_file));
  if (options.vocab_size != 0 && options.vocab_size != tokenizer->vocab_size()) {
    throw ConfigError("--vocab-size {} contradicts {}, which has {} tokens; leave the flag out",
                      options.vocab_size, options.vocab_file, tokenizer->vocab_size());
  }
  return tokenizer;
}

}  // namespace phalanx
