// BERT: an encoder that fills in masked words and says whether two parts of a text were exchanged.

#include "phalanx/model/bert.h"

#include <array>

#include "phalanx/base/error.h"
#include "phalanx/families/families.h"
#include "phalanx/settings/config_views.h"

namespace phalanx {
namespace {

constexpr auto kBertDefaults =
    std::to_array<ModelFamily::Default>({{"--tokenizer-type", "BertWordPieceLowerCase"}});

class BertFamily final : public ModelFamily {
 public:
  std::string_view name() const override { return "bert"; }
  std::string_view title() const override { return "BERT"; }
  std::span<const Default> defaults() const override { return kBertDefaults; }

  void resolve(TrainConfig& config) const override {
    if (config.optimizer.loss_average == "token" && is_asynchronous(config.layout) &&
        !config.model.bert_no_binary_head) {
      throw ConfigError(
          "--pipeline-schedule {}: with two losses the counts of a whole global batch divide the "
          "gradients of each microbatch, and this schedule updates in between. Give --loss-average "
          "microbatch or --bert-no-binary-head, or another schedule",
          config.layout.pipeline_schedule);
    }
  }

  std::shared_ptr<const Model> model(const TrainConfig& config,
                                     std::int64_t vocabulary) const override {
    return std::make_shared<const BertModel>(bert_config(config, vocabulary));
  }
  std::unique_ptr<DataSources> sources(const TrainConfig& config, const SourceSeed& seed,
                                       const Tokenizer& tokenizer) const override {
    return bert_sources(config.data, seed, tokenizer, !config.model.bert_no_binary_head);
  }
};

}  // namespace

BertConfig bert_config(const TrainConfig& c, std::int64_t tokenizer_size) {
  const std::int64_t vocabulary = model_vocabulary(c, tokenizer_size);
  BertConfig config{.transformer = transformer_config(c),
                    .vocabulary = vocabulary,
                    .padded_vocabulary = padded_vocabulary(c, vocabulary),
                    .max_positions = c.model.max_position_embeddings,
                    .sequence = c.data.seq_length,
                    .binary_head = !c.model.bert_no_binary_head,
                    .tied_embedding = !c.model.untie_embeddings_and_output_weights,
                    .recompute = recompute_plan(c)};
  config.transformer.stack = "encoder";
  config.transformer.causal = false;
  config.transformer.norm_place =
      c.model.post_layernorm ? nn::NormPlace::kPost : nn::NormPlace::kPre;
  return config;
}

std::shared_ptr<const ModelFamily> bert_family() { return std::make_shared<const BertFamily>(); }

}  // namespace phalanx
