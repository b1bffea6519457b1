#pragma once
// The files that a run read, as its manifests describe them, and the copies that a checkpoint
// keeps.

#include <filesystem>
#include <string>
#include <string_view>

#include "phalanx/checkpoint/manifest.h"

namespace phalanx {

// The copy of an input file: `bytes` become the file `name` of the checkpoint.
struct InputCopy {
  std::string name;
  std::string bytes;
};

// Whether a copy may have this name: up to 100 letters, digits, '.', '_' and '-', not beginning
// with '.', and not the name of one of a checkpoint's other files, in any case.
bool is_copy_name(std::string_view name);

// The entry of an input file: with its digest, with its length only (for a file that takes too long
// to read), or as it was when `copy` was taken. InputMissingError if there is no such file.
Manifest::InputFile describe_input_file(std::string flag, const std::filesystem::path& path);
Manifest::InputFile describe_input_length(std::string flag, const std::filesystem::path& path);
Manifest::InputFile describe_input_copy(std::string flag, const std::filesystem::path& path,
                                        const InputCopy& copy);

}  // namespace phalanx
