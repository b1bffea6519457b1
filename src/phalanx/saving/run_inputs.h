#pragma once
// The files that decide what a run computes: its tokenizer's and its datasets'. A checkpoint
// records which they were, and holds copies of the tokenizer's.

#include <map>
#include <string>
#include <vector>

#include "phalanx/checkpoint/checkpoint_reader.h"
#include "phalanx/checkpoint/checkpoint_writer.h"
#include "phalanx/settings/train_config.h"

namespace phalanx {

struct RunInputs {
  std::vector<Manifest::InputFile> files;
  // Copies of the tokenizer's files as they were when the run began, and of the files that an
  // imported checkpoint keeps.
  std::vector<InputCopy> copies;
  std::map<std::string, std::string> arguments;  // what the order of samples depends on
};

// InputMissingError (66), naming each file of the flags that does not exist; OutputError (73) where
// the directory of the trace does not exist.
void check_files(const TrainConfig& config);

// As they are now.
RunInputs run_inputs(const TrainConfig& config);

// ConfigError where the checkpoint was made with another tokenizer or dataset; it names the flag,
// the file and the difference. Not compared: where a file lies, what the checkpoint has no entry
// for, and with --finetune the data and its order.
void check_inputs(const RunInputs& inputs, const Manifest& manifest, const RunConfig& run);

// Takes the tokenizer's files from the checkpoint where it holds them.
void use_kept_tokenizer(TrainConfig& config, const CheckpointReader& checkpoint);

}  // namespace phalanx
