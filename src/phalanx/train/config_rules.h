#pragma once
// The parts of resolve(), each about one part of the configuration: they derive what was left open
// and judge what contradicts. What a value may be by itself stands in the table of flags.

#include <string>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/train/config.h"

namespace phalanx {

// What is wrong with a configuration, all of it.
class Faults {
 public:
  // Whether the rules hold; what they throw as a ConfigError is kept.
  template <typename Rules>
  bool hold(const Rules& rules) {
    try {
      rules();
      return true;
    } catch (const ConfigError& error) {
      messages_.emplace_back(error.what());
      return false;
    }
  }
  void add(std::string message) { messages_.push_back(std::move(message)); }
  bool empty() const { return messages_.empty(); }
  // ConfigError with a line for each, if there are any.
  void raise() const;

 private:
  std::vector<std::string> messages_;
};

// Every value is one that its flag may have, and what must be given is.
void check_values(const TrainConfig& config, bool for_training, Faults& faults);

// Sizes of layers that the flags leave open, and what flags of layers go together.
void resolve_model(TrainConfig& config);
// No flag of another model family is given.
void check_family_flags(const TrainConfig& config, Faults& faults);
// Of a model with an encoder and a decoder: sizes that the flags leave open, and what both stacks
// must fit. With the model resolved.
void resolve_decoder(TrainConfig& config);
// --encoder-pipeline-model-parallel-size becomes the split rank of one pipeline.
void resolve_encoder_ranks(LayoutConfig& layout);

void resolve_ranks(TrainConfig& config);
// With the ranks resolved.
void resolve_batch(TrainConfig& config);
// With model and ranks resolved.
void resolve_tensor_parallelism(TrainConfig& config);
// With one place where data comes from, but in a plan.
void check_data(const DataConfig& data, bool for_training);
// With the ranks resolved.
void resolve_data_parallelism(LayoutConfig& layout);
// How files of states are read and written.
void check_offload(const LayoutConfig& layout);
void resolve_recomputation(TrainConfig& config);
// The schedule, its virtual stages and their layers; with the batch and the ranks resolved.
void resolve_pipeline(TrainConfig& config);

void resolve_weight_decay(OptimizerConfig& optimizer);
// Whether the flags of each optimizer go with the one that is asked for.
void check_optimizer(const OptimizerConfig& optimizer);
void check_loss_scale(const OptimizerConfig& optimizer);
// With the batch resolved.
void check_length(const TrainConfig& config, bool for_training);
// With length and weight decay resolved.
void check_learning_rate(const TrainConfig& config);

}  // namespace phalanx
