#include "phalanx/start/run_data.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/log.h"
#include "phalanx/data/blended_source.h"
#include "phalanx/families/family.h"
#include "phalanx/rank/reading_ahead.h"
#include "phalanx/settings/config_views.h"

namespace phalanx {
namespace {

// The last part of each prefix, or the whole prefix where two have the same last part.
std::vector<std::string> names_of(const std::vector<std::string>& prefixes) {
  const auto short_name = [](const std::string& prefix) {
    return std::filesystem::path(prefix).filename().string();
  };
  std::vector<std::string> names;
  for (const std::string& prefix : prefixes) {
    const auto same = std::ranges::count_if(prefixes, [&](const std::string& other) {
      return short_name(other) == short_name(prefix);
    });
    names.push_back(same == 1 ? short_name(prefix) : prefix);
  }
  return names;
}

}  // namespace

RunData::RunData(const TrainConfig& config, const Tokenizer& tokenizer, const SampleCounts& counts,
                 const std::function<void()>& poll)
    : config_(config), counts_(counts), evaluation_batch_(batch_schedule(config).last()) {
  const IndexCache cache(config.data.data_cache_path);
  make(*family_of(config).sources(
      config, {.seed = static_cast<std::uint32_t>(config.run.seed), .cache = &cache, .poll = poll},
      tokenizer));
}

RunData::RunData(const DataConfig& data, DataSources& sources, const SampleCounts& counts)
    : counts_(counts) {
  config_.data = data;
  config_.layout.micro_batch_size = 1;
  make(sources);
}

void RunData::make(DataSources& sources) {
  const DataConfig& data = config_.data;
  const RunDataPaths paths = data_paths(data);
  const bool is_divided = paths.is_mock || paths.common;
  for (const SplitKind kind : kSplitKinds) {
    const auto& own = paths.by_split[static_cast<std::size_t>(kind)];
    if (!is_divided && !own) continue;
    // A split of which no samples are requested is not built.
    if (counts_.of(kind) == 0) continue;
    SourceRequest request{.kind = kind, .samples = std::nullopt, .split = std::nullopt};
    if (!is_read_whole(kind)) request.samples = counts_.of(kind);
    if (is_divided) request.split = Split(data.split);
    const auto add = [&](std::string name, std::shared_ptr<const SampleSource> source) {
      if (!source) return;
      if (is_read_whole(kind)) {
        source = std::make_shared<const PaddedSource>(std::move(source), evaluation_batch_);
      }
      sets_[static_cast<std::size_t>(kind)].push_back({std::move(name), std::move(source)});
    };
    if (paths.is_mock) {
      add({}, sources.make_mock(request));
    } else if (kind == SplitKind::kValid && data.multiple_validation_sets) {
      const auto names = names_of(own->prefixes);
      for (std::size_t i = 0; i < names.size(); ++i) {
        add(names[i], sources.make({.prefixes = {own->prefixes[i]}, .weights = {}}, request));
      }
    } else {
      add({}, sources.make(is_divided ? *paths.common : *own, request));
    }
  }
  tokens_ = sources.tokens();
  documents_ = sources.documents();
}

void RunData::check_suffices(const SampleCounts& needed) const {
  for (const SplitKind kind : kSplitKinds) {
    if (is_read_whole(kind) || sampler_type(config_.data) == SamplerType::kCyclic) continue;
    for (const Set& set : sets(kind)) {
      const std::int64_t size = set.source->size();
      if (needed.of(kind) <= size) continue;
      if (kind == SplitKind::kTrain) {
        if (size < counts_.train) {
          throw ConfigError(
              "the run needs {} training samples, but datasets without weights are read once, "
              "which gives {}: give WEIGHT PREFIX for each, to read them again and again, or train "
              "for less",
              needed.train, size);
        }
        throw ConfigError(
            "the flags need {} train samples, but the order that this run began with ends after "
            "{}; more samples would reshuffle the data. Ask for at most {}, or begin a new run "
            "from "
            "these weights",
            needed.train, size, size);
      }
      log_info(
          "> {} {} samples will be read, but the order that this run began with ends after {}: it "
          "begins again from the first",
          needed.of(kind), name_of(kind), size);
    }
  }
}

std::int64_t RunData::evaluation_iterations(SplitKind kind, std::size_t set) const {
  if (!is_read_whole(kind)) return config_.run.eval_iters;
  return sets(kind).at(set).source->size() / evaluation_batch_;
}

RunData::Stream::Stream(const RunData& data, SplitKind kind, std::int64_t consumed,
                        const GridCoordinates& rank, std::size_t set, std::vector<int> cores) {
  const TrainConfig& config = data.config_;
  const auto& source = data.sets(kind).at(set).source;
  const std::shared_ptr<Sampler> sampler =
      make_sampler(data.is_read_whole(kind) ? SamplerType::kSingle : sampler_type(config.data),
                   !config.data.no_data_sharding,
                   {.total_samples = source->size(),
                    .consumed_samples = consumed,
                    .micro_batch_size = config.layout.micro_batch_size,
                    .data_parallel_rank = rank.data,
                    .data_parallel_size = data_parallel_size(config.layout),
                    .name = std::string(name_of(kind)),
                    .repeats = kind != SplitKind::kTrain});
  BatchLoaderOptions options = reading_ahead(config, kind == SplitKind::kTrain);
  options.context_rank = rank.context;
  options.cores = std::move(cores);
  loader_ = std::make_unique<BatchLoader>(
      source, [sampler] { return sampler->next(); }, std::move(options));
}

BatchSource RunData::Stream::source() {
  return [this](int /*microbatch*/) -> const HostBatch& { return loader_->next(); };
}

}  // namespace phalanx
