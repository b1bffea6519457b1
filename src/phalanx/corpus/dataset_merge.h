#pragma once
// Joins several indexed datasets into one, as Megatron's tools/merge_datasets.py does.

#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace phalanx {

// Writes the datasets one after another as a new dataset. All must have the same token type and no
// modes (DataError); the output must not be one of the inputs (ConfigError).
void merge_datasets(std::span<const std::string> prefixes, const std::string& output_prefix);

// Prefixes of the datasets in a directory, sorted by name as bytes. DataError if a .bin or .idx
// lacks the other, or there are none; InputMissingError or IoError if the directory cannot be read.
std::vector<std::string> datasets_in(const std::filesystem::path& directory);

}  // namespace phalanx
