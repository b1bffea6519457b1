#include "phalanx/settings/data_settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

#include "phalanx/base/error.h"
#include "phalanx/settings/config_views.h"
#include "phalanx/settings/faults.h"

namespace phalanx {
namespace {

constexpr std::string_view kCommonFlag = "--data-path";
constexpr std::array<std::string_view, kSplitKinds.size()> kSplitFlags = {
    "--train-data-path", "--valid-data-path", "--test-data-path"};
constexpr std::string_view kArgsFlag = "--data-args-path";
constexpr std::string_view kSplitArgsFlag = "--per-split-data-args-path";
constexpr std::string_view kMockFlag = "--mock-data";

const std::vector<std::string>& words_of_split(const DataConfig& data, std::size_t kind) {
  return kind == 0 ? data.train_data_path : kind == 1 ? data.valid_data_path : data.test_data_path;
}

// The flags that say where data comes from; those of the splits count as one.
std::vector<std::string_view> sources_of(const DataConfig& data) {
  std::vector<std::string_view> sources;
  if (!data.data_path.empty()) sources.push_back(kCommonFlag);
  if (!data.data_args_path.empty()) sources.push_back(kArgsFlag);
  for (std::size_t kind = 0; kind < kSplitFlags.size(); ++kind) {
    if (words_of_split(data, kind).empty()) continue;
    sources.push_back(kSplitFlags[kind]);
    break;
  }
  if (!data.per_split_data_args_path.empty()) sources.push_back(kSplitArgsFlag);
  if (data.mock_data) sources.push_back(kMockFlag);
  return sources;
}

void check_sources(const DataConfig& data, bool for_training) {
  const auto sources = sources_of(data);
  if (sources.size() > 1) {
    throw ConfigError("{}: give one of them, for data comes from one place",
                      fmt::join(sources, " and "));
  }
  if (sources.empty() && for_training) {
    throw ConfigError("{} must be given (or {}, {}, {} or {})", kCommonFlag, kSplitFlags[0],
                      kArgsFlag, kSplitArgsFlag, kMockFlag);
  }
  const bool has_splits = !sources.empty() && sources[0] != kCommonFlag &&
                          sources[0] != kArgsFlag && sources[0] != kSplitArgsFlag &&
                          sources[0] != kMockFlag;
  if (has_splits && data.train_data_path.empty() && for_training) {
    throw ConfigError("{} must be given beside {}", kSplitFlags[0], sources[0]);
  }
}

void check_validation_sets(const DataConfig& data) {
  if (!data.multiple_validation_sets) return;
  if (!data.per_split_data_args_path.empty()) return;  // checked when it is read
  if (data.valid_data_path.empty()) {
    throw ConfigError("--multiple-validation-sets needs {} or {}: its prefixes are the sets",
                      kSplitFlags[1], kSplitArgsFlag);
  }
}

// Weights have a meaning only in a blend.
void check_sets(const DataConfig& data, const SplitBlends& blends) {
  const auto& valid = blends[static_cast<std::size_t>(SplitKind::kValid)];
  if (data.multiple_validation_sets && valid && !valid->weights.empty()) {
    throw ConfigError(
        "--multiple-validation-sets evaluates each validation set by itself: give their prefixes "
        "without weights");
  }
}

// "--data-path 0.3 0.7", "--data-path, 3 by size", "--data-path".
std::string blend_text(std::string_view flag, const DataBlend& blend) {
  if (!blend.weights.empty()) return fmt::format("{} {}", flag, fmt::join(blend.weights, " "));
  if (blend.prefixes.size() == 1) return std::string(flag);
  return fmt::format("{}: {} by size", flag, blend.prefixes.size());
}

}  // namespace

void check_data(const DataConfig& data, bool for_training) {
  Faults faults;
  faults.hold([&] { check_sources(data, for_training); });
  if (!data.data_path.empty()) {
    faults.hold([&] { parse_data_blend(data.data_path, kCommonFlag); });
  }
  faults.hold([&] { check_validation_sets(data); });
  SplitBlends blends;
  for (std::size_t kind = 0; kind < kSplitFlags.size(); ++kind) {
    const auto& words = words_of_split(data, kind);
    if (words.empty()) continue;
    faults.hold([&] { blends[kind] = parse_data_blend(words, kSplitFlags[kind]); });
  }
  faults.hold([&] { check_sets(data, blends); });
  faults.hold([&] { Split{data.split}; });
  if (data.no_data_sharding && data.dataloader_type != "cyclic") {
    faults.add("--no-data-sharding needs --dataloader-type cyclic");
  }
  faults.raise();
}

RunDataPaths data_paths(const DataConfig& data) {
  RunDataPaths paths{.is_mock = data.mock_data, .common = std::nullopt, .by_split = {}};
  if (!data.data_path.empty()) paths.common = parse_data_blend(data.data_path, kCommonFlag);
  if (!data.data_args_path.empty()) paths.common = read_data_blend(data.data_args_path, kArgsFlag);
  for (std::size_t kind = 0; kind < kSplitFlags.size(); ++kind) {
    const auto& words = words_of_split(data, kind);
    if (!words.empty()) paths.by_split[kind] = parse_data_blend(words, kSplitFlags[kind]);
  }
  if (data.per_split_data_args_path.empty()) return paths;
  paths.by_split = read_split_blends(data.per_split_data_args_path, kSplitArgsFlag);
  check_sets(data, paths.by_split);
  if (!paths.by_split[static_cast<std::size_t>(SplitKind::kTrain)]) {
    throw ConfigError("{} {}: there is no \"train\"", kSplitArgsFlag,
                      data.per_split_data_args_path);
  }
  return paths;
}

std::vector<std::pair<std::string_view, std::string>> RunDataPaths::prefixes() const {
  std::vector<std::pair<std::string_view, std::string>> all;
  const auto add = [&](std::string_view flag, const std::optional<DataBlend>& blend) {
    if (!blend) return;
    for (const std::string& prefix : blend->prefixes) all.emplace_back(flag, prefix);
  };
  add(kCommonFlag, common);
  for (std::size_t kind = 0; kind < by_split.size(); ++kind) add(kSplitFlags[kind], by_split[kind]);
  return all;
}

std::map<std::string, std::string> order_arguments(const TrainConfig& config,
                                                   const RunDataPaths& paths) {
  std::vector<std::string> blends;
  if (paths.is_mock) blends.emplace_back(kMockFlag);
  if (paths.common) blends.push_back(blend_text(kCommonFlag, *paths.common));
  for (std::size_t kind = 0; kind < kSplitFlags.size(); ++kind) {
    if (paths.by_split[kind]) {
      blends.push_back(blend_text(kSplitFlags[kind], *paths.by_split[kind]));
    }
  }
  std::map<std::string, std::string> arguments;
  arguments[std::string(kDataBlend)] = fmt::format("{}", fmt::join(blends, ", "));
  if (sampler_type(config.data) == SamplerType::kCyclic) {
    const std::int64_t micro = config.layout.micro_batch_size;
    const std::int64_t ranks = data_parallel_size(config.layout);
    // Without shards only their product matters.
    arguments[std::string(kCyclicOrder)] =
        config.data.no_data_sharding
            ? fmt::format("{} samples in a microbatch of all ranks", micro * ranks)
            : fmt::format("micro batch {} x {} data-parallel ranks", micro, ranks);
  }
  if (const std::int64_t multiple = document_multiple(config.layout); multiple > 1) {
    arguments[std::string(kDocumentMultiple)] = fmt::to_string(multiple);
  }
  return arguments;
}

SamplerType sampler_type(const DataConfig& data) {
  return data.dataloader_type == "cyclic" ? SamplerType::kCyclic : SamplerType::kSingle;
}

}  // namespace phalanx
