#pragma once
// A model family as training meets it: what Megatron's pretrain() is handed as dataset_provider,
// model_provider and extra_args_provider. GPT, BERT and T5 are three; another program can bring its
// own (examples/own-model, cli/family_program.h). Nothing else in training knows a family by name.

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/data/data_sources.h"
#include "phalanx/families/evaluation_scores.h"
#include "phalanx/families/family_sources.h"
#include "phalanx/flags/flag_set.h"
#include "phalanx/model/gpt.h"
#include "phalanx/model/model.h"
#include "phalanx/pipeline/placement.h"
#include "phalanx/settings/train_config.h"
#include "phalanx/tokenizer/tokenizer.h"

namespace phalanx {

// Families are immutable.
class ModelFamily {
 public:
  virtual ~ModelFamily() = default;

  // "gpt": what stands behind `phalanx pretrain`, and what a checkpoint says it is of.
  virtual std::string_view name() const = 0;
  // "GPT": for people.
  virtual std::string_view title() const = 0;

  // Flags beyond the table of all families (flag_table/train_flags.h). Their values are text, in
  // TrainConfig::family_options by name, and are kept in checkpoints; `default_value` of each is
  // the value where it is not given.
  struct OwnFlag {
    FlagSpec spec;
    std::string default_value;
  };
  virtual std::span<const OwnFlag> flags() const { return {}; }
  // What stands instead of a flag's default in this family.
  struct Default {
    std::string_view flag;
    std::string_view value;
  };
  virtual std::span<const Default> defaults() const { return {}; }

  // In resolve(): derives what its flags leave open of the model, before that is laid out on ranks.
  // ConfigError where they contradict each other.
  virtual void resolve_model(TrainConfig& /*config*/) const {}
  // Likewise behind all that holds for every family.
  virtual void resolve(TrainConfig& /*config*/) const {}

  // Of a resolved configuration, at the first place of a tensor-parallel group. `vocabulary` is the
  // tokenizer's size.
  virtual std::shared_ptr<const Model> model(const TrainConfig& config,
                                             std::int64_t vocabulary) const = 0;
  // Which part of the model every stage has.
  virtual std::vector<StageRange> stages(const TrainConfig& config,
                                         const Placement& placement) const;
  // Whether the paths of --train-data-path and --valid-data-path are files that it reads as they
  // are, no prefixes of .bin/.idx.
  virtual bool reads_tables() const { return false; }
  // Whether --pretrained-checkpoint may be of a model that has only a part of this one: what it
  // lacks is drawn, and what is not of this model stays there.
  virtual bool begins_with_part() const { return false; }
  // What an evaluation tells beside the losses; null: nothing.
  virtual std::shared_ptr<const EvaluationScores> evaluation_scores(
      const TrainConfig& /*config*/) const {
    return nullptr;
  }
  // The model as one that goes on with a text, which is what score and generate compute with; none
  // where it is no GptModel.
  virtual std::optional<GptConfig> language_model(const TrainConfig& config,
                                                  std::int64_t vocabulary) const;
  // Where its samples come from; their schema is the model's.
  virtual std::unique_ptr<DataSources> sources(const TrainConfig& config, const SourceSeed& seed,
                                               const Tokenizer& tokenizer) const = 0;
};

// The family of a configuration. ConfigError where its name is none.
const ModelFamily& family_of(const TrainConfig& config);
// Those that come with Phalanx: GPT first.
std::span<const std::shared_ptr<const ModelFamily>> known_families();
// One of these, by name; null where there is none.
std::shared_ptr<const ModelFamily> find_family(std::string_view name);

// Stands among a manifest's arguments for the family's name; a manifest without is a GPT's.
inline constexpr std::string_view kFamilyArgument = "run.family";
// ConfigError where the checkpoint is of another family.
void check_family(const TrainConfig& config, const std::map<std::string, std::string>& arguments);

// Shorthands.
std::shared_ptr<const Model> make_model(const TrainConfig& config, std::int64_t vocabulary);
std::vector<StageRange> model_stages(const TrainConfig& config, const Placement& placement);

}  // namespace phalanx
