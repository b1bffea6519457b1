#include "peak_family.h"

#include <array>
#include <charconv>
#include <string>

#include "peak_head.h"
#include "peak_samples.h"
#include "phalanx/base/error.h"
#include "phalanx/nn/embedding.h"
#include "phalanx/nn/transformer_layer.h"
#include "phalanx/settings/config_views.h"

namespace peaks {
namespace {

namespace nn = phalanx::nn;
using phalanx::Chunk;
using phalanx::StageRange;
using phalanx::TrainConfig;

struct PeakConfig {
  nn::TransformerConfig transformer;
  phalanx::VocabularySize numbers;
  std::int64_t max_positions = 0;
  std::int64_t sequence = 0;
  phalanx::RecomputePlan recompute;
};

class PeakModel final : public phalanx::Model {
 public:
  explicit PeakModel(const PeakConfig& config) : config_(config) {}

  std::unique_ptr<const Model> placed(const phalanx::ModelPlace& place) const override {
    PeakConfig config = config_;
    config.transformer.tensor.rank = place.tensor_rank;
    return std::make_unique<const PeakModel>(config);
  }
  const nn::TransformerConfig& transformer() const override { return config_.transformer; }
  phalanx::VocabularySize vocabulary() const override { return config_.numbers; }
  phalanx::BatchSchema batch_schema() const override { return peak_schema(config_.sequence); }
  std::vector<phalanx::LossSpec> losses() const override {
    return {{.name = "peak loss", .mask = "counted"}};
  }
  StageRange whole() const override {
    return {.has_embedding = true, .num_layers = config_.transformer.num_layers, .has_head = true};
  }
  Chunk build_chunk(const StageRange& range, nn::ParamTable& table) const override;
  std::int64_t tokens_per_sample() const override { return config_.sequence; }
  double flops_per_sample() const override;

 private:
  PeakConfig config_;
};

Chunk PeakModel::build_chunk(const StageRange& range, nn::ParamTable& table) const {
  const phalanx::BatchSchema batch = batch_schema();
  table.begin_chunk();
  std::vector<std::unique_ptr<nn::Unit>> units;
  if (range.has_embedding) {
    units.push_back(std::make_unique<nn::Embedding>(
        table, config_.numbers.ids, config_.numbers.padded, config_.max_positions,
        nn::EmbeddingSharing{},
        nn::EmbeddingColumns{.tokens = batch.index("numbers"),
                             .position_ids = batch.index("position_ids")},
        config_.transformer));
  }
  for (std::int64_t i = 0; i < range.num_layers; ++i) {
    units.push_back(std::make_unique<nn::TransformerLayer>(table, range.first_layer + i, i,
                                                           config_.transformer));
  }
  if (range.has_head) {
    units.push_back(std::make_unique<PeakHead>(table, batch.index("peaks"), batch.index("counted"),
                                               config_.transformer));
  }
  return Chunk(std::move(units), config_.recompute);
}

double PeakModel::flops_per_sample() const {
  const auto h = static_cast<double>(config_.transformer.hidden);
  const auto f = static_cast<double>(config_.transformer.ffn_hidden);
  const auto s = static_cast<double>(config_.sequence);
  const auto layers = static_cast<double>(config_.transformer.num_layers);
  return s * (6.0 * layers * (4.0 * h * h + 2.0 * h * f) + 12.0 * layers * s * h);
}

constexpr std::string_view kDistance = "--peak-distance";

std::int64_t distance_of(const TrainConfig& config) {
  const auto found = config.family_options.find(std::string(kDistance));
  const std::string text = found == config.family_options.end() ? "1" : found->second;
  std::int64_t distance = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), distance);
  if (fault != std::errc{} || end != text.data() + text.size() || distance < 1) {
    throw phalanx::ConfigError("{} {}: give a number from 1 on", kDistance, text);
  }
  return distance;
}

class PeakFamily final : public phalanx::ModelFamily {
 public:
  std::string_view name() const override { return "peaks"; }
  std::string_view title() const override { return "model that finds peaks"; }

  std::span<const OwnFlag> flags() const override {
    static const auto own_flags = std::to_array<OwnFlag>(
        {{.spec = {.name = kDistance,
                   .help = "How far away the neighbours are that a peak is above",
                   .value_name = "N"},
          .default_value = "1"}});
    return own_flags;
  }
  void resolve(TrainConfig& config) const override {
    distance_of(config);
    if (config.layout.tensor_model_parallel_size > 1) {
      throw phalanx::ConfigError(
          "--tensor-model-parallel-size: the head that finds peaks is not cut; leave it out");
    }
  }

  std::shared_ptr<const phalanx::Model> model(const TrainConfig& config,
                                              std::int64_t vocabulary) const override {
    PeakConfig peaks{
        .transformer = phalanx::transformer_config(config),
        .numbers = {.ids = vocabulary, .padded = phalanx::padded_vocabulary(config, vocabulary)},
        .max_positions = config.model.max_position_embeddings,
        .sequence = config.data.seq_length,
        .recompute = phalanx::recompute_plan(config)};
    peaks.transformer.causal = false;
    return std::make_shared<const PeakModel>(peaks);
  }
  std::unique_ptr<phalanx::DataSources> sources(
      const TrainConfig& config, const phalanx::SourceSeed& seed,
      const phalanx::Tokenizer& tokenizer) const override {
    return std::make_unique<PeakSources>(PeakOptions{.sequence = config.data.seq_length,
                                                     .numbers = tokenizer.vocab_size(),
                                                     .distance = distance_of(config),
                                                     .seed = seed.seed});
  }
};

}  // namespace

std::shared_ptr<const phalanx::ModelFamily> peak_family() {
  return std::make_shared<const PeakFamily>();
}

}  // namespace peaks
