#pragma once
// The files that a run read, as its manifests describe them, and the copies that a checkpoint
// keeps.

#include <filesystem>
#include <string>
#include <string_view>

#include "phalanx/checkpoint/manifest.h"

namespace phalanx {

// What is kept of an input file: `bytes` become the file `name` of the checkpoint.
struct InputCopy {
  std::string name;
  std::string bytes;
};

// Whether a copy may have this name: up to 100 letters, digits, '.', '_' and '-', the first no '.',
// and none of the names that a checkpoint's other files have, in capitals or not.
bool is_copy_name(std::string_view name);

// The entry of an input file as it is now; of its length alone, where reading all of it would take
// too long; and as it was when `copy` was taken. InputMissingError where there is no such file.
Manifest::InputFile describe_input_file(std::string flag, const std::filesystem::path& path);
Manifest::InputFile describe_input_length(std::string flag, const std::filesystem::path& path);
Manifest::InputFile describe_input_copy(std::string flag, const std::filesystem::path& path,
                                        const InputCopy& copy);

}  // namespace phalanx
