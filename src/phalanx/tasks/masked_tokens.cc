#include "phalanx/tasks/masked_tokens.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "phalanx/base/error.h"
#include "phalanx/data/host_batch.h"
#include "phalanx/inference/inference_model.h"
#include "phalanx/ops/elementwise.h"
#include "phalanx/rank/batch_memory.h"
#include "phalanx/tasks/classification_samples.h"

namespace phalanx {
namespace {

// Every row is real, and its label is what it holds: nobody reads the losses.
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

}  // namespace

struct MaskedTokens::Engine {
  Engine(const BertConfig& config, std::unique_ptr<Backend> backend, InferenceArenas arenas)
      : bert(config),
        losses(std::ssize(BertModel(config).losses())),
        model(BertModel(config), std::move(backend), std::move(arenas)) {}

  // The logits of all rows, [tokens, padded vocabulary].
  std::vector<float> forward(std::span<const std::int32_t> tokens) {
    BertConfig config = bert;
    config.sequence = std::ssize(tokens);
    const BatchSchema schema = BertModel(config).batch_schema();
    Sample sample(schema);
    fill_sample(schema, tokens, sample);
    HostBatch host(schema, 1);
    host.put(0, 0, sample);
    Arena& workspace = model.arenas().workspace;
    const WorkspaceScope scope(workspace);
    const BatchMemory memory(schema, 1, 1, workspace);
    memory.upload(model.context(), 0, host);
    // The head adds sums up, too.
    const Tensor sums = workspace.allocate(DType::kF64, {2 * losses});
    ops::fill(model.context(), {.x = sums, .value = 0.0});
    std::vector<nn::LossTerm> terms;
    for (std::int64_t i = 0; i < losses; ++i) {
      terms.push_back({.sum = sums.slice(0, 2 * i, 1), .count = sums.slice(0, 2 * i + 1, 1)});
    }
    const Shape all{std::ssize(tokens), model.padded_vocabulary()};
    const Tensor logits = workspace.allocate(DType::kF32, all);
    model.infer(memory[0], {.losses = terms, .logits = logits});
    std::vector<float> result(static_cast<std::size_t>(all.count()));
    model.read_back(logits, std::span(result));
    return result;
  }

  BertConfig bert;
  std::int64_t losses;
  InferenceModel model;
};

MaskedTokens::MaskedTokens(const TrainConfig& config, const BertConfig& model,
                           const CheckpointReader& checkpoint, const DeviceChoice& device,
                           std::span<const std::int64_t> lengths)
    : vocabulary_(model.vocabulary) {
  const std::int64_t threads = config.layout.threads_per_rank;
  Engine rehearsal(model, device.make_planning_backend(threads), InferenceArenas::planning());
  for (const std::int64_t length : std::set(lengths.begin(), lengths.end())) {
    PHALANX_CHECK(length > 0 && length <= model.max_positions, "{} tokens in {} positions", length,
                  model.max_positions);
    rehearsal.forward(std::vector<std::int32_t>(static_cast<std::size_t>(length), 0));
  }
  expect_room(config, rehearsal.model.arenas(), "Give a shorter text or end other programs");
  engine_ = std::make_unique<Engine>(model, device.make_backend(threads),
                                     rehearsal.model.arenas().sized());
  engine_->model.load(checkpoint);
}

MaskedTokens::~MaskedTokens() = default;

std::vector<std::vector<double>> MaskedTokens::log_probabilities(
    std::span<const std::int32_t> tokens, std::span<const std::int64_t> places) {
  const std::vector<float> logits = engine_->forward(tokens);
  const std::int64_t columns = engine_->model.padded_vocabulary();
  std::vector<std::vector<double>> result;
  for (const std::int64_t place : places) {
    const auto row = std::span(logits).subspan(static_cast<std::size_t>(place * columns),
                                               static_cast<std::size_t>(vocabulary_));
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
  // Of equals the smaller id.
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
