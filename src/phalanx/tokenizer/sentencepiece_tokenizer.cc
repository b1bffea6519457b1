#include "phalanx/tokenizer/sentencepiece_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <unordered_map>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/file.h"

namespace phalanx {

SentencePieceTokenizer::SentencePieceTokenizer(SentencePieceType type, SentencePieceModel model,
                                               std::int64_t extra_ids, const std::string& source)
    : type_(type), engine_(std::move(model), source) {
  special_.unk = engine_.model().unknown;
  if (type == SentencePieceType::kMegatron) {
    append_special_tokens(extra_ids, source);
  } else {
    take_special_tokens_of_model(extra_ids, source);
  }
  is_special_[static_cast<std::size_t>(*special_.unk)] = true;
}

void SentencePieceTokenizer::check_extra_ids(std::int64_t extra_ids,
                                             const std::string& source) const {
  constexpr std::int64_t kLimit = std::numeric_limits<std::int32_t>::max();
  constexpr std::int64_t kNamed = 7;
  if (extra_ids >= 0 && extra_ids <= kLimit - kNamed - pieces()) return;
  throw ConfigError("--vocab-extra-ids {} is out of range: {} has {} pieces", extra_ids, source,
                    pieces());
}

// In Megatron's order, which decides the ids.
void SentencePieceTokenizer::append_special_tokens(std::int64_t extra_ids,
                                                   const std::string& source) {
  check_extra_ids(extra_ids, source);
  const SentencePieceModel& model = engine_.model();
  std::unordered_map<std::string, std::int32_t> ids;
  for (std::size_t id = 0; id < model.pieces.size(); ++id) {
    ids[model.pieces[id].text] = static_cast<std::int32_t>(id);
  }
  is_special_.resize(model.pieces.size());
  std::map<std::string, std::int32_t> written;
  const auto add = [&](const std::string& token) {
    const auto [entry, is_new] = ids.try_emplace(token, static_cast<std::int32_t>(vocab_size()));
    if (is_new) appended_.push_back(token);
    is_special_.resize(static_cast<std::size_t>(vocab_size()));
    is_special_[static_cast<std::size_t>(entry->second)] = true;
    written.emplace(token, entry->second);
    return entry->second;
  };
  const auto piece_or = [&](std::optional<std::int32_t> id, const char* otherwise) {
    return id ? model.pieces[static_cast<std::size_t>(*id)].text : std::string(otherwise);
  };
  special_.cls = add("<CLS>");
  special_.sep = add("<SEP>");
  special_.eod = add("<EOD>");
  special_.mask = add("<MASK>");
  special_.pad = add(piece_or(model.pad, "<PAD>"));
  special_.bos = add(piece_or(model.bos, "<BOS>"));
  special_.eos = add(piece_or(model.eos, "<EOS>"));
  for (std::int64_t i = 0; i < extra_ids; ++i) {
    special_.sentinels.push_back(add("<extra_id_" + std::to_string(i) + ">"));
  }
  finder_ = SpecialFinder({written.begin(), written.end()});
}

void SentencePieceTokenizer::take_special_tokens_of_model(std::int64_t extra_ids,
                                                          const std::string& source) {
  const SentencePieceModel& model = engine_.model();
  special_.bos = model.bos;
  special_.eos = special_.eod = model.eos;
  if (type_ == SentencePieceType::kGpt) special_.pad = model.pad;
  is_special_.resize(model.pieces.size());
  std::vector<std::pair<std::string, std::int32_t>> written;
  for (std::size_t id = 0; id < model.pieces.size(); ++id) {
    const SentencePiece& piece = model.pieces[id];
    if (piece.kind != PieceKind::kControl && piece.kind != PieceKind::kUnknown) continue;
    is_special_[id] = true;
    written.emplace_back(piece.text, static_cast<std::int32_t>(id));
  }
  // T5's order: the first sentinel has the highest id.
  check_extra_ids(extra_ids, source);
  special_.sentinels.resize(static_cast<std::size_t>(extra_ids));
  for (std::int64_t i = extra_ids - 1; i >= 0; --i) {
    const std::string token = fmt::format("<extra_id_{}>", i);
    const auto id = static_cast<std::int32_t>(vocab_size());
    if (std::ranges::find(model.pieces, token, &SentencePiece::text) != model.pieces.end()) {
      throw ConfigError("--vocab-extra-ids {}: {} has a piece {} of its own: leave the flag out",
                        extra_ids, source, token);
    }
    special_.sentinels[static_cast<std::size_t>(i)] = id;
    appended_.push_back(token);
    written.emplace_back(token, id);
  }
  is_special_.resize(static_cast<std::size_t>(vocab_size()), true);
  finder_ = SpecialFinder(std::move(written));
}

std::string_view SentencePieceTokenizer::name() const {
  if (type_ == SentencePieceType::kMegatron) return kMegatronName;
  return type_ == SentencePieceType::kGpt ? kGptName : kLlama2Name;
}

std::string SentencePieceTokenizer::piece(std::int32_t id) const {
  expect_known(id);
  if (id >= pieces()) return appended_[static_cast<std::size_t>(id - pieces())];
  return engine_.model().pieces[static_cast<std::size_t>(id)].text;
}

std::vector<std::int32_t> SentencePieceTokenizer::encode_text(std::string_view text,
                                                              const EncodeOptions& options) const {
  std::vector<std::int32_t> ids;
  if (options.add_special && type_ == SentencePieceType::kLlama2) {
    if (!special_.bos) {
      throw DataError("{} cannot add the beginning of a text: the model has no such piece", name());
    }
    ids.push_back(*special_.bos);
  }
  while (options.parse_special) {
    const auto found = finder_.find(text);
    if (!found) break;
    engine_.encode(text.substr(0, found->begin), ids);
    ids.push_back(found->id);
    text.remove_prefix(found->begin + found->length);
  }
  engine_.encode(text, ids);
  return ids;
}

std::string SentencePieceTokenizer::decode_ids(std::span<const std::int32_t> ids,
                                               const DecodeOptions& options) const {
  std::string text;
  std::vector<std::int32_t> stretch;
  for (const std::int32_t id : ids) {
    std::string token = piece(id);
    const bool is_special = is_special_[static_cast<std::size_t>(id)];
    if (is_special && options.skip_special) continue;
    const bool is_text = !is_special || type_ != SentencePieceType::kMegatron || id == special_.unk;
    if (is_text && id < pieces()) {
      stretch.push_back(id);
      continue;
    }
    text += engine_.decode(stretch) + ' ' + token + ' ';
    stretch.clear();
  }
  return text + engine_.decode(stretch);
}

namespace {

std::unique_ptr<Tokenizer> make_tokenizer_of_model(SentencePieceType type,
                                                   const TokenizerOptions& options) {
  const MappedFile file(options.tokenizer_model);
  const auto bytes = file.bytes();
  SentencePieceModel model = parse_sentencepiece_model(
      {reinterpret_cast<const char*>(bytes.data()), bytes.size()}, options.tokenizer_model);
  return std::make_unique<SentencePieceTokenizer>(type, std::move(model), options.vocab_extra_ids,
                                                  options.tokenizer_model);
}

}  // namespace

std::unique_ptr<Tokenizer> make_sentencepiece_tokenizer(const TokenizerOptions& options) {
  return make_tokenizer_of_model(SentencePieceType::kMegatron, options);
}

std::unique_ptr<Tokenizer> make_gpt_sentencepiece_tokenizer(const TokenizerOptions& options) {
  return make_tokenizer_of_model(SentencePieceType::kGpt, options);
}

std::unique_ptr<Tokenizer> make_llama2_tokenizer(const TokenizerOptions& options) {
  return make_tokenizer_of_model(SentencePieceType::kLlama2, options);
}

}  // namespace phalanx
