#pragma once
// Where tests find the repository and what was built. Only paths.cc is compiled with these names,
// so that all other objects are the same in every copy of the repository.

#include <filesystem>
#include <string>

namespace phalanx {

/// A file of the repository: source_path("tests/golden/tiny_gpt.json").
std::filesystem::path source_path(const std::filesystem::path& name);
/// A file of the build directory: build_path("libphalanx_ucx.so").
std::filesystem::path build_path(const std::filesystem::path& name);
/// The program `phalanx`.
std::string program_path();

}  // namespace phalanx
