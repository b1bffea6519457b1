#include "phalanx/data/data_sources.h"

#include <utility>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/base/log.h"
#include "phalanx/data/blend.h"
#include "phalanx/data/blended_source.h"

namespace phalanx {

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

std::shared_ptr<const SampleSource> DataSources::make(const DataBlend& blend,
                                                      const SourceRequest& request) {
  if (request.samples == 0) return nullptr;
  if (blend.prefixes.size() > 1 || !blend.weights.empty()) return blend_of(blend, request);
  const std::string& name = blend.prefixes.front();
  const OpenedData file = open(name, request);
  const IndexRange range = range_of(name, file.elements, request, false);
  if (range.size() == 0) return nullptr;
  return make_named(name, range, request.kind,
                    [&] { return file.samples_of(range, request.samples); });
}

std::shared_ptr<const SampleSource> DataSources::blend_of(const DataBlend& blend,
                                                          const SourceRequest& request) {
  struct Part {
    std::string name;
    OpenedData file;
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
    OpenedData file = open(blend.prefixes[d], request);
    const IndexRange range = range_of(blend.prefixes[d], file.elements, request, true);
    if (range.size() == 0) continue;
    parts.push_back({blend.prefixes[d], std::move(file), range});
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
    const Part& part = parts[d];
    sources.push_back(make_named(part.name, part.range, request.kind,
                                 [&] { return part.file.samples_of(part.range, samples); }));
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

DataSources::OpenedData DataSources::open(const std::string& path,
                                          const SourceRequest& /*request*/) {
  auto& file = files_[path];
  if (!file) file = std::make_shared<const IndexedDataset>(path);
  return {.elements = elements(*file),
          .samples_of = [this, &file](IndexRange range, std::optional<std::int64_t> samples) {
            return samples_of(file, range, samples);
          }};
}

std::int64_t DataSources::elements(const IndexedDataset& file) const {
  PHALANX_CHECK(false, "{}: this family has no samples of .bin/.idx datasets", file.prefix());
  return 0;
}

std::shared_ptr<const SampleSource> DataSources::samples_of(
    const std::shared_ptr<const IndexedDataset>& file, IndexRange /*range*/,
    std::optional<std::int64_t> /*samples*/) const {
  PHALANX_CHECK(false, "{}: this family has no samples of .bin/.idx datasets", file->prefix());
  return nullptr;
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
