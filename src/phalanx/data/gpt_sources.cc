#include "phalanx/data/gpt_sources.h"

#include <utility>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/base/log.h"
#include "phalanx/data/blend.h"
#include "phalanx/data/blended_source.h"
#include "phalanx/data/mock_sequences.h"

namespace phalanx {

GptSources::GptSources(GptSourceOptions options) : options_(std::move(options)) {
  check_gpt_options(options_.batch);
}

std::shared_ptr<const IndexedDataset> GptSources::open(const std::string& prefix) {
  auto& file = files_[prefix];
  if (!file) file = std::make_shared<const IndexedDataset>(prefix);
  return file;
}

IndexRange GptSources::range_of(const TokenSequences& sequences, const SourceRequest& request,
                                bool is_blended) const {
  const std::int64_t count = sequences.sequences();
  const IndexRange range =
      request.split ? request.split->range(request.kind, count) : IndexRange{0, count};
  if (range.size() > 0) return range;
  const bool is_train = request.kind == SplitKind::kTrain;
  if (!request.split) {
    if (is_train && !is_blended) throw ConfigError("{}: it holds no sequences", sequences.name());
    log_warning("{}: it holds no sequences: there is no {} data{}", sequences.name(),
                name_of(request.kind), is_blended ? " of it" : "");
    return range;
  }
  if (is_train && !is_blended) {
    throw ConfigError(
        "{}: --split leaves no training data of {} sequences; give more documents or a larger "
        "first share",
        sequences.name(), count);
  }
  if (request.split->share(request.kind) > 0) {
    log_warning(
        "{}: {} sequences are too few for the {} share of --split ({:.4g}): there is no {} data{}. "
        "Preprocess the text into more documents, or give a larger share",
        sequences.name(), count, name_of(request.kind), request.split->share(request.kind),
        name_of(request.kind), is_blended ? " of it" : "");
  }
  return range;
}

std::shared_ptr<const SampleSource> GptSources::samples_of(
    std::shared_ptr<const TokenSequences> sequences, IndexRange range, SplitKind kind,
    std::optional<std::int64_t> samples) const {
  const std::string name(sequences->name());
  try {
    auto dataset = std::make_shared<const GptDataset>(
        std::move(sequences), range, options_.vocabulary_size,
        GptIndexOptions{.sequence_length = options_.sequence_length,
                        .samples = samples,
                        .seed = options_.seed,
                        .order = options_.order,
                        .poll = options_.poll},
        options_.cache);
    return std::make_shared<const GptSamples>(std::move(dataset), options_.batch, options_.schema);
  } catch (const ConfigError& error) {
    throw ConfigError("{}, {} split (sequences {} to {}): {}", name, name_of(kind), range.begin,
                      range.end, error.what());
  }
}

std::shared_ptr<const SampleSource> GptSources::make(const DataBlend& blend,
                                                     const SourceRequest& request) {
  if (request.samples == 0) return nullptr;
  if (blend.prefixes.size() > 1 || !blend.weights.empty()) return blend_of(blend, request);
  const auto file = open(blend.prefixes.front());
  const IndexRange range = range_of(*file, request, false);
  if (range.size() == 0) return nullptr;
  return samples_of(file, range, request.kind, request.samples);
}

std::shared_ptr<const SampleSource> GptSources::make_mock(const SourceRequest& request) {
  if (request.samples == 0) return nullptr;
  if (!mock_) {
    mock_ = std::make_shared<const MockSequences>(options_.vocabulary_size, options_.batch.eod);
  }
  const IndexRange range = range_of(*mock_, request, false);
  if (range.size() == 0) return nullptr;
  return samples_of(mock_, range, request.kind, request.samples);
}

std::shared_ptr<const SampleSource> GptSources::blend_of(const DataBlend& blend,
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
    const IndexRange range = range_of(*file, request, true);
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
    sources.push_back(samples_of(parts[d].file, parts[d].range, request.kind, samples));
    sizes.push_back(sources.back()->size());
  }
  const auto mixed = [&] {
    if (!request.samples) return blend_exhaustively(sizes, options_.poll);
    std::int64_t size = *request.samples;  // as far as the datasets go
    if (is_weighted) {
      size = blended_size(size, weights);
    } else {
      weights.assign(sizes.begin(), sizes.end());
    }
    // Megatron normalizes weights twice, and the second time may round.
    return blend_by_weights(normalized_weights(weights), size, sizes, options_.poll);
  };
  return std::make_shared<const BlendedSource>(std::move(sources), mixed());
}

std::int64_t GptSources::tokens() const {
  std::int64_t tokens = 0;
  for (const auto& [prefix, file] : files_) tokens += file->tokens();
  for (std::int64_t i = 0; mock_ && i < mock_->sequences(); ++i) tokens += mock_->length(i);
  return tokens;
}

std::int64_t GptSources::documents() const {
  std::int64_t documents = mock_ ? mock_->sequences() : 0;
  for (const auto& [prefix, file] : files_) documents += file->documents();
  return documents;
}

}  // namespace phalanx
