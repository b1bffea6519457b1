#include "phalanx/data/data_sources.h"

#include <utility>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/base/log.h"
#include "phalanx/data/blend.h"
#include "phalanx/data/blended_source.h"

namespace phalanx {

std::shared_ptr<const IndexedDataset> DataSources::open(const std::string& prefix) {
  auto& file = files_[prefix];
  if (!file) file = std::make_shared<const IndexedDataset>(prefix);
  return file;
}

IndexRange DataSources::range_of(std::string_view dataset, std::int64_t count,
                                 const SourceRequest& request, bool is_blended) const {
  const IndexRange range =
      request.split ? request.split->range(request.kind, count) : IndexRange{0, count};
  if (range.size() > 0) return range;
  const bool is_train = request.kind == SplitKind::kTrain;
  if (!request.split) {
    if (is_train && !is_blended) throw ConfigError("{}: it holds no {}", dataset, element_name());
    log_warning("{}: it holds no {}: there is no {} data{}", dataset, element_name(),
                name_of(request.kind), is_blended ? " of it" : "");
    return range;
  }
  if (is_train && !is_blended) {
    throw ConfigError(
        "{}: --split leaves no training data of {} {}; give more documents or a larger "
        "first share",
        dataset, count, element_name());
  }
  if (request.split->share(request.kind) > 0) {
    log_warning(
        "{}: {} {} are too few for the {} share of --split ({:.4g}): there is no {} data{}. "
        "Preprocess the text into more documents, or give a larger share",
        dataset, count, element_name(), name_of(request.kind), request.split->share(request.kind),
        name_of(request.kind), is_blended ? " of it" : "");
  }
  return range;
}

std::shared_ptr<const SampleSource> DataSources::make_named(
    std::string_view dataset, IndexRange range, SplitKind kind,
    const std::function<std::shared_ptr<const SampleSource>()>& make) const {
  try {
    return make();
  } catch (const ConfigError& error) {
    throw ConfigError("{}, {} split ({} {} to {}): {}", dataset, name_of(kind), element_name(),
                      range.begin, range.end, error.what());
  }
}

std::shared_ptr<const SampleSource> DataSources::named_samples_of(
    const std::shared_ptr<const IndexedDataset>& file, IndexRange range, SplitKind kind,
    std::optional<std::int64_t> samples) const {
  return make_named(file->name(), range, kind, [&] { return samples_of(file, range, samples); });
}

std::shared_ptr<const SampleSource> DataSources::make(const DataBlend& blend,
                                                      const SourceRequest& request) {
  if (request.samples == 0) return nullptr;
  if (blend.prefixes.size() > 1 || !blend.weights.empty()) return blend_of(blend, request);
  const auto file = open(blend.prefixes.front());
  const IndexRange range = range_of(file->name(), elements(*file), request, false);
  if (range.size() == 0) return nullptr;
  return named_samples_of(file, range, request.kind, request.samples);
}

std::shared_ptr<const SampleSource> DataSources::blend_of(const DataBlend& blend,
                                                          const SourceRequest& request) {
  struct Part {
    std::shared_ptr<const IndexedDataset> file;
    IndexRange range;
  };
  const bool is_weighted = !blend.weights.empty();
  if (is_weighted && !request.samples) {
    throw ConfigError(
        "the weights of the {} data say how much of each dataset is read, and all of it is wanted "
        "once: leave the weights out",
        name_of(request.kind));
  }
  std::vector<Part> parts;
  std::vector<double> weights;
  for (std::size_t d = 0; d < blend.prefixes.size(); ++d) {
    auto file = open(blend.prefixes[d]);
    const IndexRange range = range_of(file->name(), elements(*file), request, true);
    if (range.size() == 0) continue;
    parts.push_back({std::move(file), range});
    if (is_weighted) weights.push_back(blend.weights[d]);
  }
  if (parts.empty()) {
    if (request.kind != SplitKind::kTrain) return nullptr;
    throw ConfigError("none of {} datasets has training data: see --split", blend.prefixes.size());
  }
  weights = normalized_weights(weights);
  std::vector<std::shared_ptr<const SampleSource>> sources;
  std::vector<std::int64_t> sizes;
  for (std::size_t d = 0; d < parts.size(); ++d) {
    const auto samples =
        is_weighted ? std::optional(blended_request(*request.samples, weights[d])) : std::nullopt;
    sources.push_back(named_samples_of(parts[d].file, parts[d].range, request.kind, samples));
    sizes.push_back(sources.back()->size());
  }
  const auto mixed = [&] {
    if (!request.samples) return blend_exhaustively(sizes, poll_);
    std::int64_t size = *request.samples;  // as far as the datasets go
    if (is_weighted) {
      size = blended_size(size, weights);
    } else {
      weights.assign(sizes.begin(), sizes.end());
    }
    // Megatron normalizes weights twice, and the second time may round.
    return blend_by_weights(normalized_weights(weights), size, sizes, poll_);
  };
  return std::make_shared<const BlendedSource>(std::move(sources), mixed());
}

std::int64_t DataSources::tokens() const {
  std::int64_t tokens = 0;
  for (const auto& [prefix, file] : files_) tokens += file->tokens();
  return tokens;
}

std::int64_t DataSources::documents() const {
  std::int64_t documents = 0;
  for (const auto& [prefix, file] : files_) documents += file->documents();
  return documents;
}

}  // namespace phalanx
