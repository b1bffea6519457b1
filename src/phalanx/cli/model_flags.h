#pragma once
// The flags of the commands that compute with a trained model (generate, score, evaluate), and the
// model.

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

// The training configuration that a checkpoint was made with, unresolved. `own`: the family of a
// program that has no other; ConfigError where the checkpoint is not of it.
TrainConfig checkpoint_config(const CheckpointReader& checkpoint,
                              const std::shared_ptr<const ModelFamily>& own = nullptr);

struct TrainedModel {
  CheckpointReader checkpoint;
  TrainConfig config;  // resolved, for inference
  std::unique_ptr<Tokenizer> tokenizer;
  GptConfig model;
  bool goes_on = false;  // with a text: `model` is what it is
  DeviceChoice device;

  bool is_classifier() const;  // tasks/classify_family.h
};

class ModelFlags {
 public:
  explicit ModelFlags(std::shared_ptr<const ModelFamily> own = nullptr) : own_(std::move(own)) {}
  void add_load_to(FlagSet& flags);
  void add_others_to(FlagSet& flags);
  // Of a command whose model may lie on many ranks, in a dtype of its own.
  void add_layout_to(FlagSet& flags);
  // Verifies the weights' file, unless it is told not to; the weights themselves are not read into
  // memory yet.
  // ConfigError where it is a classifier, which has no output layer.
  TrainedModel open(Verify verify = Verify::kWeights) const;
  // Likewise, of any model.
  TrainedModel open_any(Verify verify = Verify::kWeights) const;
  // Of a classifier; ConfigError where it is none.
  TrainedModel open_classifier() const;

 private:
  std::shared_ptr<const ModelFamily> own_;
  std::string load_;
  std::int64_t threads_ = 0;
  std::string vocab_file_, merge_file_, tokenizer_model_, matmul_precision_ = "auto";
  std::int64_t tensor_parallel_ = 1;
  std::string dtype_;
  bool allow_overcommit_ = false;
};

// Of a command of a program with a family of its own. ConfigError where its model does not go on
// with a text.
void expect_language_model(const ModelCommand& command, const TrainedModel& trained);

// The model with its caches, planned and without weights.
std::unique_ptr<CachedModel> plan_model(const TrainedModel& trained, CachedModel::Sizes sizes);
// The weights. ConfigError where the machine has not the memory; `remedy` as check_memory() has it.
void load_model(const TrainedModel& trained, CachedModel& model, std::string_view remedy);

}  // namespace phalanx
