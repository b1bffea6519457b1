#pragma once
// Where a run's data lies: prefixes of datasets and their weights, as Megatron's flags and files
// name them.

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/data/split.h"

namespace phalanx {

// Datasets whose samples are mixed.
struct DataBlend {
  std::vector<std::string> prefixes;
  // One for each prefix; empty: none are given, and each dataset counts by its size.
  std::vector<double> weights;
};

// One prefix, or several, or WEIGHT PREFIX WEIGHT PREFIX ...: an even number of words of which
// every other one is a number. `source` (a flag, or a flag and its file) opens the message of the
// ConfigError that names the word: no words, a weight that is not above 0, numbers in some of the
// places only, too many prefixes.
DataBlend parse_data_blend(std::span<const std::string> words, std::string_view source);

// The words of a file (`--data-args-path`), between blanks and line ends. InputMissingError,
// IoError where it cannot be read; ConfigError as above.
DataBlend read_data_blend(const std::string& path, std::string_view flag);

// By SplitKind; absent: no data.
using SplitBlends = std::array<std::optional<DataBlend>, kSplitKinds.size()>;

// A file (`--per-split-data-args-path`) of JSON: {"train": [...], "valid": [...], "test": [...]},
// each a list of words or one text of them; null or left out: no data. ConfigError for anything
// else.
SplitBlends read_split_blends(const std::string& path, std::string_view flag);

}  // namespace phalanx
