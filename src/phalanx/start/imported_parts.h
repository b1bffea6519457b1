#pragma once
// What a checkpoint has of an imported model beside its weights and flags: what its files say of
// token ids, and the files that are kept as they are. A run that begins with the checkpoint passes
// them on, so that they outlive training.

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

// Those that still hold for a run with these flags and inputs: where it has another tokenizer, no
// ids of texts and no files, and a warning names these.
ImportedParts imported_parts(const TrainConfig& config, const RunInputs& inputs,
                             const Manifest& manifest);

// Adds the kept files, read from the checkpoint, to what a run saves.
void add_kept_files(const ImportedParts& parts, const CheckpointReader& checkpoint,
                    RunInputs& inputs);

}  // namespace phalanx
