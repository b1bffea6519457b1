#pragma once
// What the data flags come to: where a run's data lies, and in what order it is consumed.

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "phalanx/data/cyclic_sampler.h"
#include "phalanx/data/data_paths.h"
#include "phalanx/settings/train_config.h"

namespace phalanx {

struct RunDataPaths {
  bool is_mock = false;
  // What --split divides.
  std::optional<DataBlend> common;
  // Of separate flags for each split.
  SplitBlends by_split;

  // Every prefix with the flag that stands for it: --data-path, or --train-data-path and its likes,
  // also where a file holds the words.
  std::vector<std::pair<std::string_view, std::string>> prefixes() const;
};

// Reads the files that flags name. ConfigError, InputMissingError as data_paths.h.
RunDataPaths data_paths(const DataConfig& data);

// What a run's order of samples depends on beside its flags and files, as a checkpoint keeps it:
// how datasets are mixed, and with a cyclic sampler the sizes that decide its order.
inline constexpr std::string_view kDataBlend = "run.data_blend";
inline constexpr std::string_view kCyclicOrder = "run.cyclic_order";
std::map<std::string, std::string> order_arguments(const TrainConfig& config,
                                                   const RunDataPaths& paths);

// ConfigError unless data comes from one place, or, in a plan, from none.
void check_data(const DataConfig& data, bool for_training);

SamplerType sampler_type(const DataConfig& data);

}  // namespace phalanx
