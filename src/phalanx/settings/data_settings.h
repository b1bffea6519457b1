#pragma once
// The result of the data flags: where a run's data lies, and in what order it is consumed.

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
  // Set if each split has a flag of its own (--train-data-path, ...).
  SplitBlends by_split;

  // Every prefix with its flag: --data-path, --train-data-path, ..., also if the words come from a
  // file.
  std::vector<std::pair<std::string_view, std::string>> prefixes() const;
};

// Reads the files that flags name. ConfigError, InputMissingError as data_paths.h.
RunDataPaths data_paths(const DataConfig& data);

// What the order of samples depends on besides flags and files, for checkpoints: how datasets are
// mixed, and for a cyclic sampler the sizes that decide its order.
inline constexpr std::string_view kDataBlend = "run.data_blend";
inline constexpr std::string_view kCyclicOrder = "run.cyclic_order";
// Of how many rows packed documents take a multiple, where that is not 1.
inline constexpr std::string_view kDocumentMultiple = "run.document_multiple";
std::map<std::string, std::string> order_arguments(const TrainConfig& config,
                                                   const RunDataPaths& paths);

// ConfigError unless exactly one flag says where data comes from; a plan needs none.
void check_data(const DataConfig& data, bool for_training);

SamplerType sampler_type(const DataConfig& data);

}  // namespace phalanx
