#include "phalanx/tasks/masked_tokens.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "phalanx/base/error.h"
#include "phalanx/data/host_batch.h"
#include "phalanx/inference/inference_model.h"
#include "phalanx/tasks/classification_samples.h"

namespace phalanx {
namespace {

// No row is padding. Labels are the tokens themselves: the losses are not read.
void fill_sample(const BatchSchema& schema, std::span<const std::int32_t> tokens, Sample& sample) {
  const auto column = [&](const char* name) {
    return sample.column<std::int32_t>(schema.index(name));
  };
  for (const char* name : {"tokens", "labels"}) std::ranges::copy(tokens, column(name).begin());
  for (const char* name : {"position_ids", "position"}) {
    const auto places = column(name);
    std::iota(places.begin(), places.end(), 0);
  }
  for (const char* name : {"types", "document"}) std::ranges::fill(column(name), 0);
  std::ranges::fill(sample.column<float>(schema.index("loss_mask")), 1.0F);
  std::ranges::fill(column("is_random"), -1);
}

// The logits of all rows, [tokens, padded vocabulary].
std::vector<float> forward(InferenceModel& model, BertConfig config,
                           std::span<const std::int32_t> tokens) {
  config.sequence = std::ssize(tokens);
  const BertModel bert(config);
  const BatchSchema schema = bert.batch_schema();
  Sample sample(schema);
  fill_sample(schema, tokens, sample);
  HostBatch host(schema, 1);
  host.put(0, 0, sample);
  return model
      .answer(host, {.losses = std::ssize(bert.losses()),
                     .logits = {std::ssize(tokens), model.padded_vocabulary()}})
      .logits;
}

}  // namespace

MaskedTokens::MaskedTokens(const TrainConfig& config, const BertConfig& model,
                           const CheckpointReader& checkpoint, const DeviceChoice& device,
                           std::span<const std::int64_t> lengths)
    : config_(model) {
  model_ = load_rehearsed(
      config, BertModel(model), checkpoint, device, "Give a shorter text or end other programs",
      [&](InferenceModel& rehearsal) {
        for (const std::int64_t length : std::set(lengths.begin(), lengths.end())) {
          PHALANX_CHECK(length > 0 && length <= model.max_positions, "{} tokens in {} positions",
                        length, model.max_positions);
          forward(rehearsal, model, std::vector<std::int32_t>(static_cast<std::size_t>(length), 0));
        }
      });
}

MaskedTokens::~MaskedTokens() = default;

std::vector<std::vector<double>> MaskedTokens::log_probabilities(
    std::span<const std::int32_t> tokens, std::span<const std::int64_t> places) {
  const std::vector<float> logits = forward(*model_, config_, tokens);
  const std::int64_t columns = model_->padded_vocabulary();
  std::vector<std::vector<double>> result;
  for (const std::int64_t place : places) {
    const auto row = std::span(logits).subspan(static_cast<std::size_t>(place * columns),
                                               static_cast<std::size_t>(config_.vocabulary));
    const double largest = static_cast<double>(*std::ranges::max_element(row));
    double sum = 0.0;
    for (const float logit : row) sum += std::exp(static_cast<double>(logit) - largest);
    const double total = largest + std::log(sum);
    if (!std::isfinite(total)) {
      throw DataError("the probabilities of token {} are not numbers: the weights are not sound",
                      place);
    }
    auto& values = result.emplace_back();
    for (const float logit : row) values.push_back(static_cast<double>(logit) - total);
  }
  return result;
}

std::vector<double> MaskedTokens::score(std::span<const std::int32_t> tokens, std::int32_t mask) {
  std::vector<double> result;
  std::vector<std::int32_t> masked(tokens.begin(), tokens.end());
  for (std::int64_t place = 1; place + 1 < std::ssize(tokens); ++place) {
    const auto at = static_cast<std::size_t>(place);
    masked[at] = mask;
    const auto values = log_probabilities(masked, std::span(&place, 1));
    masked[at] = tokens[at];
    result.push_back(values.front()[static_cast<std::size_t>(tokens[at])]);
  }
  return result;
}

std::vector<Candidate> best_candidates(const std::vector<double>& log_probabilities,
                                       std::int64_t count) {
  std::vector<std::int32_t> ids(log_probabilities.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto most = std::min<std::int64_t>(count, std::ssize(ids));
  const auto value = [&](std::int32_t id) {
    return log_probabilities[static_cast<std::size_t>(id)];
  };
  // Of equal probabilities the smaller id comes first.
  std::partial_sort(ids.begin(), ids.begin() + most, ids.end(), [&](auto a, auto b) {
    return value(a) != value(b) ? value(a) > value(b) : a < b;
  });
  std::vector<Candidate> best;
  for (std::int64_t i = 0; i < most; ++i) {
    const std::int32_t id = ids[static_cast<std::size_t>(i)];
    best.push_back({id, std::exp(value(id))});
  }
  return best;
}

std::vector<std::int32_t> encode_with_masks(const Tokenizer& tokenizer, const std::string& text) {
  const ClassificationTokens special(tokenizer);
  if (!tokenizer.special_tokens().mask) {
    throw ConfigError("--tokenizer-type {} has no [MASK] token", tokenizer.name());
  }
  std::vector<std::int32_t> tokens = {special.cls};
  const auto inner = tokenizer.encode(text, {.parse_special = true});
  tokens.insert(tokens.end(), inner.begin(), inner.end());
  tokens.push_back(special.sep);
  return tokens;
}

}  // namespace phalanx
