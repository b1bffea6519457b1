#include "phalanx/tasks/classify_family.h"

#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/families/families.h"
#include "phalanx/settings/config_views.h"
#include "phalanx/tasks/class_scores.h"
#include "phalanx/tasks/classifier.h"
#include "phalanx/tasks/classify_options.h"

namespace phalanx {
namespace {

class ClassifySources final : public DataSources {
 public:
  ClassifySources(const TrainConfig& config, const SourceSeed& seed, const Tokenizer& tokenizer)
      : DataSources(seed.poll),
        options_(ClassifyOptions::from_text(config.family_options)),
        tokenizer_(tokenizer),
        sequence_(config.data.seq_length),
        batch_(batch_schedule(config).last()),
        seed_(seed.seed) {}

  std::shared_ptr<const SampleSource> make(const DataBlend& blend,
                                           const SourceRequest& request) override {
    if (!blend.weights.empty()) {
      throw ConfigError("tables of labelled texts have no weights: give their paths alone");
    }
    if (request.kind == SplitKind::kTrain) {
      return training_source(blend.prefixes, options_, tokenizer_, sequence_, batch_, seed_);
    }
    PHALANX_CHECK(blend.prefixes.size() == 1, "{} validation files as one", blend.prefixes.size());
    return validation_source(blend.prefixes.front(), options_, tokenizer_, sequence_);
  }
  std::shared_ptr<const SampleSource> make_mock(const SourceRequest& /*request*/) override {
    throw ConfigError("--mock-data: there are no made-up labelled texts");
  }
  // For datasets, which a classifier does not have.
  std::int64_t tokens() const override { return 0; }
  std::int64_t documents() const override { return 0; }

 private:
  std::string_view element_name() const override { return "texts"; }

  ClassifyOptions options_;
  const Tokenizer& tokenizer_;
  std::int64_t sequence_, batch_;
  std::uint64_t seed_;
};

class ClassifyFamily final : public ModelFamily {
 public:
  std::string_view name() const override { return kClassifyFamily; }
  std::string_view title() const override { return "BERT classifier"; }
  bool reads_tables() const override { return true; }
  bool begins_with_part() const override { return true; }

  std::shared_ptr<const Model> model(const TrainConfig& config,
                                     std::int64_t vocabulary) const override {
    return std::make_shared<const ClassifierModel>(classifier_config(config, vocabulary));
  }
  std::shared_ptr<const EvaluationScores> evaluation_scores(
      const TrainConfig& config) const override {
    return class_scores(ClassifyOptions::from_text(config.family_options).classes());
  }
  std::unique_ptr<DataSources> sources(const TrainConfig& config, const SourceSeed& seed,
                                       const Tokenizer& tokenizer) const override {
    return std::make_unique<ClassifySources>(config, seed, tokenizer);
  }
};

}  // namespace

ClassifierConfig classifier_config(const TrainConfig& config, std::int64_t vocabulary) {
  return {.bert = bert_config(config, vocabulary),
          .classes = ClassifyOptions::from_text(config.family_options).classes()};
}

std::shared_ptr<const ModelFamily> classify_family() {
  return std::make_shared<const ClassifyFamily>();
}

}  // namespace phalanx
