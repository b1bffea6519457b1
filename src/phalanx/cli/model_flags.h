#pragma once
// The flags of commands that use a trained model (generate, score, evaluate), and how they open it.

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "phalanx/checkpoint/checkpoint_reader.h"
#include "phalanx/cli/family_commands.h"
#include "phalanx/families/family.h"
#include "phalanx/flags/flag_set.h"
#include "phalanx/inference/cached_model.h"
#include "phalanx/ops/device_choice.h"
#include "phalanx/settings/config_views.h"
#include "phalanx/settings/train_config.h"
#include "phalanx/tokenizer/registry.h"

namespace phalanx {

// The training configuration that a checkpoint was made with, unresolved. `own`: the only family of
// a program that brings its own; ConfigError if the checkpoint is of another.
TrainConfig checkpoint_config(const CheckpointReader& checkpoint,
                              const std::shared_ptr<const ModelFamily>& own = nullptr);

struct TrainedModel {
  CheckpointReader checkpoint;
  TrainConfig config;  // resolved, for inference
  std::unique_ptr<Tokenizer> tokenizer;
  GptConfig model;
  bool goes_on = false;  // whether the model continues texts; then `model` describes it
  DeviceChoice device;

  bool is_classifier() const;  // tasks/classify_family.h
};

class ModelFlags {
 public:
  explicit ModelFlags(std::shared_ptr<const ModelFamily> own = nullptr) : own_(std::move(own)) {}
  void add_load_to(FlagSet& flags);
  void add_others_to(FlagSet& flags);
  // For commands that can run the model on many ranks and in another dtype.
  void add_layout_to(FlagSet& flags);
  // Nothing will be computed: --device may name a device that is not there.
  void only_plans() { only_plans_ = true; }
  // Opens the checkpoint and verifies the file of weights, unless told not to; the weights are not
  // read into memory yet. ConfigError for a classifier, which has no output layer; errors of
  // --device as chosen_device() has them.
  TrainedModel open(Verify verify = Verify::kWeights) const;
  // The same for any model.
  TrainedModel open_any(Verify verify = Verify::kWeights) const;
  // The same for a classifier; ConfigError if it is none.
  TrainedModel open_classifier() const;

 private:
  std::shared_ptr<const ModelFamily> own_;
  std::string load_, lora_base_;
  std::int64_t threads_ = 0;
  std::string vocab_file_, merge_file_, tokenizer_model_, matmul_precision_ = "auto";
  std::int64_t tensor_parallel_ = 1;
  std::string dtype_, device_ = "cpu";
  bool only_plans_ = false;
  bool allow_overcommit_ = false;
};

// For a program with a family of its own. ConfigError if its model does not continue texts.
void expect_language_model(const ModelCommand& command, const TrainedModel& trained);

// The model with its caches: planned, without weights.
std::unique_ptr<CachedModel> plan_model(const TrainedModel& trained, CachedModel::Sizes sizes);
// Loads the weights. ConfigError if the machine has too little memory; `remedy` as in
// check_memory().
void load_model(const TrainedModel& trained, CachedModel& model, std::string_view remedy);

}  // namespace phalanx
