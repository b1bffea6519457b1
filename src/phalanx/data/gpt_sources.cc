#include "phalanx/data/gpt_sources.h"

#include <utility>

#include "phalanx/data/mock_sequences.h"

namespace phalanx {

GptSources::GptSources(GptSourceOptions options)
    : DataSources(options.poll), options_(std::move(options)) {
  check_gpt_options(options_.batch);
}

std::shared_ptr<const SampleSource> GptSources::windows_of(
    std::shared_ptr<const TokenSequences> sequences, IndexRange range,
    std::optional<std::int64_t> samples) const {
  auto dataset = std::make_shared<const GptDataset>(
      std::move(sequences), range, options_.vocabulary_size,
      GptIndexOptions{.sequence_length = options_.sequence_length,
                      .samples = samples,
                      .seed = options_.seed,
                      .order = options_.order,
                      .poll = poll()},
      options_.cache);
  return std::make_shared<const GptSamples>(std::move(dataset), options_.batch, options_.schema);
}

std::shared_ptr<const SampleSource> GptSources::samples_of(
    const std::shared_ptr<const IndexedDataset>& file, IndexRange range,
    std::optional<std::int64_t> samples) const {
  return windows_of(file, range, samples);
}

std::shared_ptr<const SampleSource> GptSources::make_mock(const SourceRequest& request) {
  if (request.samples == 0) return nullptr;
  if (!mock_) {
    mock_ = std::make_shared<const MockSequences>(options_.vocabulary_size, options_.batch.eod);
  }
  const IndexRange range = range_of(mock_->name(), mock_->sequences(), request, false);
  if (range.size() == 0) return nullptr;
  return make_named(mock_->name(), range, request.kind,
                    [&] { return windows_of(mock_, range, request.samples); });
}

std::int64_t GptSources::tokens() const {
  std::int64_t tokens = DataSources::tokens();
  for (std::int64_t i = 0; mock_ && i < mock_->sequences(); ++i) tokens += mock_->length(i);
  return tokens;
}

std::int64_t GptSources::documents() const {
  return DataSources::documents() + (mock_ ? mock_->sequences() : 0);
}

}  // namespace phalanx
