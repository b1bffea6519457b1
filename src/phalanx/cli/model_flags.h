#pragma once
// The flags of the commands that compute with a trained model (generate, score), and the model.

#include <memory>
#include <string>

#include "phalanx/checkpoint/checkpoint_reader.h"
#include "phalanx/flags/flag_set.h"
#include "phalanx/ops/cpu/device.h"
#include "phalanx/tokenizer/registry.h"
#include "phalanx/train/config.h"
#include "phalanx/train/config_views.h"

namespace phalanx {

// The training configuration that a checkpoint was made with, unresolved.
TrainConfig checkpoint_config(const CheckpointReader& checkpoint);

struct TrainedModel {
  CheckpointReader checkpoint;
  TrainConfig config;  // resolved, for inference on one rank
  std::unique_ptr<Tokenizer> tokenizer;
  GptConfig model;
  cpu::ProductPrecision products;
};

class ModelFlags {
 public:
  void add_load_to(FlagSet& flags);
  void add_others_to(FlagSet& flags);
  // Verifies the weights' file; the weights themselves are not read into memory yet.
  TrainedModel open() const;

 private:
  std::string load_;
  std::int64_t threads_ = 0;
  std::string vocab_file_, merge_file_, tokenizer_model_, matmul_precision_ = "auto";
  bool allow_overcommit_ = false;
};

}  // namespace phalanx
