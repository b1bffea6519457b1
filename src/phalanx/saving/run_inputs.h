#pragma once
// The files that decide what a run computes: its tokenizer's and its dataset's. A checkpoint says
// which they were, and holds the tokenizer's itself.

#include <map>
#include <string>
#include <vector>

#include "phalanx/checkpoint/checkpoint_reader.h"
#include "phalanx/checkpoint/checkpoint_writer.h"
#include "phalanx/settings/train_config.h"

namespace phalanx {

struct RunInputs {
  std::vector<Manifest::InputFile> files;
  // Of the tokenizer's files, as they were when the run began, and of those that an imported
  // checkpoint keeps.
  std::vector<InputCopy> copies;
  std::map<std::string, std::string> arguments;  // config_data.h: of the order of samples
};

// InputMissingError (66) that names each file the flags speak of and that is not there, OutputError
// (73) where the trace has no directory to go to.
void check_files(const TrainConfig& config);

// As they are now.
RunInputs run_inputs(const TrainConfig& config);

// ConfigError where the checkpoint was made with another tokenizer or dataset: names the flag, the
// file and what differs. Where a file lies does not matter, nor what the checkpoint does not say,
// nor, with --finetune, the data and its order.
void check_inputs(const RunInputs& inputs, const Manifest& manifest, const RunConfig& run);

// Takes the tokenizer's files from the checkpoint where it holds them.
void use_kept_tokenizer(TrainConfig& config, const CheckpointReader& checkpoint);

}  // namespace phalanx
