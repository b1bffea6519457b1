// GPT: a decoder that learns to predict the next token.

#include "phalanx/model/gpt.h"

#include "phalanx/base/error.h"
#include "phalanx/families/conversation_sources.h"
#include "phalanx/families/families.h"
#include "phalanx/settings/config_views.h"

namespace phalanx {
namespace {

class GptFamily final : public ModelFamily {
 public:
  std::string_view name() const override { return "gpt"; }
  std::string_view title() const override { return "GPT"; }

  void resolve_model(TrainConfig& config) const override {
    if (config.model.position_embedding_type == "relative") {
      throw ConfigError(
          "--position-embedding-type relative is a T5's: give learned_absolute, rope or none");
    }
  }

  bool has_context_parallelism() const override { return true; }
  std::shared_ptr<const Model> model(const TrainConfig& config,
                                     std::int64_t vocabulary) const override {
    return std::make_shared<const GptModel>(gpt_config(config, vocabulary), config.data.seq_length);
  }
  std::unique_ptr<DataSources> sources(const TrainConfig& config, const SourceSeed& seed,
                                       const Tokenizer& tokenizer) const override {
    if (config.data.sft) {
      return chat_sources(config.data, seed, config.tokenizer, tokenizer,
                          document_multiple(config.layout));
    }
    return gpt_sources(config.data, seed, tokenizer.vocab_size(), tokenizer.end_of_document(),
                       document_multiple(config.layout));
  }
};

}  // namespace

std::shared_ptr<const ModelFamily> gpt_family() { return std::make_shared<const GptFamily>(); }

}  // namespace phalanx
