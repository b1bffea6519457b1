#pragma once
// A model family as training meets it: what Megatron's pretrain() is handed as dataset_provider,
// model_provider and extra_args_provider. GPT, BERT and T5 are three; another program can bring its
// own (examples/own-model, cli/family_program.h). No other code of training knows a family by name.

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

// A family is immutable.
class ModelFamily {
 public:
  virtual ~ModelFamily() = default;

  // "gpt": the word after `phalanx pretrain`, and the family's name in checkpoints.
  virtual std::string_view name() const = 0;
  // "GPT": for messages.
  virtual std::string_view title() const = 0;

  // The family's own flags, besides those of all families (flag_table/train_flags.h). Their values
  // are text in TrainConfig::family_options, by name, and are kept in checkpoints. A flag that is
  // not given has its `default_value`.
  struct OwnFlag {
    FlagSpec spec;
    std::string default_value;
  };
  virtual std::span<const OwnFlag> flags() const { return {}; }
  // A default that differs in this family.
  struct Default {
    std::string_view flag;
    std::string_view value;
  };
  virtual std::span<const Default> defaults() const { return {}; }

  // Called by resolve() before the model is laid out on ranks: derives what the family's flags
  // leave open. ConfigError if they contradict each other.
  virtual void resolve_model(TrainConfig& /*config*/) const {}
  // Called by resolve() after the rules for all families.
  virtual void resolve(TrainConfig& /*config*/) const {}

  // The model of the first rank of a tensor-parallel group. `config` is resolved, `vocabulary` the
  // tokenizer's size.
  virtual std::shared_ptr<const Model> model(const TrainConfig& config,
                                             std::int64_t vocabulary) const = 0;
  // Whether the rows of a sample may lie on several ranks: it is one sequence of a causal model.
  virtual bool has_context_parallelism() const { return false; }
  // Which part of the model every stage has.
  virtual std::vector<StageRange> stages(const TrainConfig& config,
                                         const Placement& placement) const;
  // Whether --train-data-path and --valid-data-path name files that the family reads itself,
  // instead of prefixes of .bin/.idx.
  virtual bool reads_tables() const { return false; }
  // Whether --pretrained-checkpoint may hold another model that shares a part with this one:
  // tensors that it lacks are drawn at random, and those that this model lacks are ignored.
  virtual bool begins_with_part() const { return false; }
  // What an evaluation reports besides losses; null: nothing.
  virtual std::shared_ptr<const EvaluationScores> evaluation_scores(
      const TrainConfig& /*config*/) const {
    return nullptr;
  }
  // The model as a language model that continues a text, for score and generate; none if it is no
  // GptModel.
  virtual std::optional<GptConfig> language_model(const TrainConfig& config,
                                                  std::int64_t vocabulary) const;
  // Where its samples come from; their schema is the model's.
  virtual std::unique_ptr<DataSources> sources(const TrainConfig& config, const SourceSeed& seed,
                                               const Tokenizer& tokenizer) const = 0;
};

// The family of a configuration. ConfigError if there is no family of its name.
const ModelFamily& family_of(const TrainConfig& config);
// Those that come with Phalanx: GPT first.
std::span<const std::shared_ptr<const ModelFamily>> known_families();
// One of these by name, or null.
std::shared_ptr<const ModelFamily> find_family(std::string_view name);

// The key of the family's name among a manifest's arguments. A manifest without it is of a GPT.
inline constexpr std::string_view kFamilyArgument = "run.family";
// ConfigError if the checkpoint is of another family.
void check_family(const TrainConfig& config, const std::map<std::string, std::string>& arguments);

// Shorthands.
std::shared_ptr<const Model> make_model(const TrainConfig& config, std::int64_t vocabulary);
std::vector<StageRange> model_stages(const TrainConfig& config, const Placement& placement);

}  // namespace phalanx
