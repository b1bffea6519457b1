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
  if (is_cut) tokens.resize(static_cast<std::size_t>(sequence) - 1);
  // The last [SEP] is B's, whatever is left of B.
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
  begins_.push_back(0);
  for (const LabelledText& text : texts.texts) {
    const EncodedPair pair = encode_pair(encode(text.a, text.line), encode(text.b, text.line),
                                         texts.has_pairs, special, sequence);
    tokens_.insert(tokens_.end(), pair.tokens.begin(), pair.tokens.end());
    begins_.push_back(std::ssize(tokens_));
    first_of_b_.push_back(pair.first_of_b);
    labels_.push_back(text.label);
  }
}

void ClassificationSamples::fetch(std::int64_t index, Sample& sample,
                                  std::span<double> counts) const {
  const auto at = static_cast<std::size_t>(index);
  const auto column = [&](std::string_view name) {
    return sample.column<std::int32_t>(schema_.index(name));
  };
  const auto tokens = column("tokens");
  const auto types = column("types");
  const auto position_ids = column("position_ids");
  const auto positions = column("position");
  const auto documents = column("document");
  const auto begin = static_cast<std::size_t>(begins_[at]);
  const auto length = static_cast<std::size_t>(begins_[at + 1]) - begin;
  for (std::size_t row = 0; row < tokens.size(); ++row) {
    const bool is_real = row < length;
    const auto p = static_cast<std::int32_t>(row);
    tokens[row] = is_real ? tokens_[begin + row] : pad_;
    types[row] = is_real && p >= first_of_b_[at] ? 1 : 0;
    position_ids[row] = p;
    positions[row] = p;
    documents[row] = is_real ? 0 : -1;
  }
  column("label")[0] = labels_[at];
  sample.column<float>(schema_.index("loss_mask"))[0] = 1.0F;
  counts[0] = 1.0;
}

}  // namespace phalanx
