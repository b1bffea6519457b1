#pragma once
// Several indexed datasets as one, as Megatron's tools/merge_datasets.py joins them.

#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace phalanx {

// The datasets one after another as one new dataset. All must have the same token type and no modes
// (DataError); the output may not be one of the inputs (ConfigError).
void merge_datasets(std::span<const std::string> prefixes, const std::string& output_prefix);

// Prefixes of the datasets in a directory, sorted by name as bytes. DataError where a .bin or .idx
// is without the other, or there is none; InputMissingError, IoError where it cannot be read.
std::vector<std::string> datasets_in(const std::filesystem::path& directory);

}  // namespace phalanx
