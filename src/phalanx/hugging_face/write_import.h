#pragma once
// `phalanx import hf`: a folder of Hugging Face's as a checkpoint.

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "phalanx/checkpoint/checkpoint_writer.h"
#include "phalanx/hugging_face/import.h"

namespace phalanx::hugging_face {

struct ImportOutput {
  std::filesystem::path directory;     // --output
  std::vector<InputCopy> copies = {};  // copies of the tokenizer's files
  std::vector<Manifest::InputFile> input_files = {};
  std::map<std::string, std::string> tokenizer = {};  // the tokenizer's flags
  std::function<bool()> stop_requested = nullptr;
};

// Writes a weights-only checkpoint of iteration 0 into a directory that appears when it is
// complete. False if asked to stop: then nothing is written.
bool write_import(const Import& model, const ImportOutput& output);

}  // namespace phalanx::hugging_face
