#pragma once
// `phalanx import hf`: a folder of Hugging Face's as a checkpoint.

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "phalanx/checkpoint/checkpoint_writer.h"
#include "phalanx/hugging_face/adapter_folder.h"
#include "phalanx/hugging_face/import.h"

namespace phalanx::hugging_face {

// In the directory of an import: the checkpoint of the adapters that were imported with their base.
inline constexpr std::string_view kAdaptersDirectory = "adapters";

struct ImportOutput {
  std::filesystem::path directory;     // --output
  std::vector<InputCopy> copies = {};  // copies of the tokenizer's files
  std::vector<Manifest::InputFile> input_files = {};
  std::map<std::string, std::string> tokenizer = {};  // the tokenizer's flags
  const AdapterFolder* adapters = nullptr;            // of this model; null: none
  std::function<bool()> stop_requested = nullptr;
};

// Writes a weights-only checkpoint of iteration 0 into a directory that appears when it is
// complete; adapters into a save directory in it, in a checkpoint whose base is the first one.
// False if asked to stop: then nothing is written.
bool write_import(const Import& model, const ImportOutput& output);

}  // namespace phalanx::hugging_face
