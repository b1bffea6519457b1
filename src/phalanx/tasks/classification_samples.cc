#include "phalanx/tasks/classification_samples.h"

#include <algorithm>

#include "phalanx/base/error.h"

namespace phalanx {
namespace {

std::int32_t token_of(const std::optional<std::int32_t>& id, const char* name,
                      const Tokenizer& tokenizer) {
  if (!id) {
    throw ConfigError("--tokenizer-type {} has no {} token: classification needs a BERT's",
                      tokenizer.name(), name);
  }
  return *id;
}

}  // namespace

BatchSchema classification_schema(std::int64_t sequence) {
  return BatchSchema({{"sample", DType::kI64, {sequence}},
                      {"tokens", DType::kI32, {sequence}},
                      {"position_ids", DType::kI32, {sequence}},
                      {"types", DType::kI32, {sequence}},
                      {"position", DType::kI32, {sequence}},
                      {"document", DType::kI32, {sequence}},
                      {"label", DType::kI32, {1}},
                      {"loss_mask", DType::kF32, {1}}});
}

ClassificationTokens::ClassificationTokens(const Tokenizer& tokenizer)
    : cls(token_of(tokenizer.special_tokens().cls, "[CLS]", tokenizer)),
      sep(token_of(tokenizer.special_tokens().sep, "[SEP]", tokenizer)),
      pad(token_of(tokenizer.special_tokens().pad, "[PAD]", tokenizer)) {}

EncodedPair encode_pair(std::span<const std::int32_t> a, std::span<const std::int32_t> b,
                        bool has_b, const ClassificationTokens& special, std::int64_t sequence) {
  EncodedPair result;
  auto& tokens = result.tokens;
  tokens.push_back(special.cls);
  tokens.insert(tokens.end(), a.begin(), a.end());
  tokens.push_back(special.sep);
  result.first_of_b = std::ssize(tokens);
  tokens.insert(tokens.end(), b.begin(), b.end());
  const bool is_cut = std::ssize(tokens) >= sequence;
  // Nothing is lost where only the last [SEP] is replaced by another.
  result.is_cut = is_cut && (has_b || std::ssize(tokens) > sequence);
  if (is_cut) tokens.resize(static_cast<std::size_t>(sequence) - 1);
  // The last [SEP] has the type of B, whatever is left of B.
  if (has_b) {
    result.first_of_b = std::min(result.first_of_b, std::ssize(tokens));
  } else {
    result.first_of_b = std::ssize(tokens) + (is_cut ? 1 : 0);
  }
  if (has_b || is_cut) tokens.push_back(special.sep);
  return result;
}

ClassificationSamples::ClassificationSamples(const LabelledTexts& texts, const Tokenizer& tokenizer,
                                             std::int64_t sequence)
    : schema_(classification_schema(sequence)), pad_(ClassificationTokens(tokenizer).pad) {
  PHALANX_CHECK(sequence > 1, "sequences of {}", sequence);
  const ClassificationTokens special(tokenizer);
  const auto encode = [&](const std::string& text, std::int64_t line) {
    try {
      return tokenizer.encode(text);
    } catch (const DataError& error) {
      throw DataError("{}, line {}: {}", texts.path, line, error.what());
    }
  };
  for (const LabelledText& text : texts.texts) {
    pairs_.push_back(encode_pair(encode(text.a, text.line), encode(text.b, text.line),
                                 texts.has_pairs, special, sequence));
    pairs_.back().tokens.shrink_to_fit();
    if (pairs_.back().is_cut) ++cut_;
    labels_.push_back(text.label);
  }
}

void fill_sample(const EncodedPair& pair, std::int32_t label, std::int32_t pad,
                 const BatchSchema& schema, Sample& sample) {
  const auto column = [&](std::string_view name) {
    return sample.column<std::int32_t>(schema.index(name));
  };
  const auto tokens = column("tokens");
  const auto types = column("types");
  const auto position_ids = column("position_ids");
  const auto positions = column("position");
  const auto documents = column("document");
  for (std::size_t row = 0; row < tokens.size(); ++row) {
    const bool is_real = row < pair.tokens.size();
    const auto p = static_cast<std::int32_t>(row);
    tokens[row] = is_real ? pair.tokens[row] : pad;
    types[row] = is_real && p >= pair.first_of_b ? 1 : 0;
    position_ids[row] = p;
    positions[row] = p;
    documents[row] = is_real ? 0 : -1;
  }
  column("label")[0] = label;
  sample.column<float>(schema.index("loss_mask"))[0] = 1.0F;
}

void ClassificationSamples::fetch(std::int64_t index, Sample& sample,
                                  std::span<double> counts) const {
  const auto at = static_cast<std::size_t>(index);
  fill_sample(pairs_[at], labels_[at], pad_, schema_, sample);
  counts[0] = 1.0;
}

}  // namespace phalanx
