#pragma once
// What a checkpoint of an imported model has beside its weights and flags: token ids from the
// original files, and files that are kept unchanged. A run that begins with the checkpoint puts
// them into its own checkpoints.

#include <map>
#include <string>
#include <vector>

#include "phalanx/checkpoint/checkpoint_reader.h"
#include "phalanx/checkpoint/input_file.h"
#include "phalanx/saving/run_inputs.h"

namespace phalanx {

struct ImportedParts {
  std::map<std::string, std::string> arguments;
  std::vector<Manifest::InputFile> files;
};

// The parts that are still right for a run with these flags and inputs. With another tokenizer the
// token ids and files are not, and a warning names them.
ImportedParts imported_parts(const TrainConfig& config, const RunInputs& inputs,
                             const Manifest& manifest);

// Adds the kept files, read from the checkpoint, to what a run saves.
void add_kept_files(const ImportedParts& parts, const CheckpointReader& checkpoint,
                    RunInputs& inputs);

}  // namespace phalanx
