#include "phalanx/data/gpt_sources.h"

#include <string>
#include <utility>

#include "phalanx/base/log.h"
#include "phalanx/base/numeric.h"
#include "phalanx/data/mock_sequences.h"
#include "phalanx/data/packed_samples.h"

namespace phalanx {
namespace {

void tell_packs(std::string_view dataset, const PackingCounts& counts, std::int64_t rows) {
  log_info("> {}: {} documents in {} samples, whose rows are {:.1f} % filled", dataset,
           format_count(counts.documents), format_count(counts.packs),
           100.0 * static_cast<double>(counts.tokens) /
               (static_cast<double>(counts.packs) * static_cast<double>(rows)));
  if (counts.cut_documents > 0) {
    log_warning(
        "{}: {} documents are longer than --seq-length {} and are cut to it, which leaves out {} "
        "tokens ({:.3g} %): give a longer one, or --pack-documents wrapped",
        dataset, format_count(counts.cut_documents), rows, format_count(counts.cut_tokens),
        100.0 * static_cast<double>(counts.cut_tokens) /
            static_cast<double>(counts.cut_tokens + counts.tokens));
  }
  if (counts.dropped_packs > 0) {
    log_warning("{}: {} samples of documents of one token train nothing and are left out", dataset,
                format_count(counts.dropped_packs));
  }
}

}  // namespace

std::shared_ptr<const SampleSource> packed_source(const GptSourceOptions& options,
                                                  std::shared_ptr<const TokenSequences> sequences,
                                                  IndexRange range,
                                                  std::optional<std::int64_t> samples) {
  const std::string name(sequences->name());
  auto packed = std::make_shared<const PackedSamples>(
      std::move(sequences), range, options.vocabulary_size,
      PackIndexOptions{.sequence_length = options.sequence_length,
                       .packing = options.packing,
                       .document_multiple = options.document_multiple,
                       .samples = samples,
                       .seed = options.seed,
                       .order = options.order,
                       .poll = options.poll},
      options.batch, options.schema, options.cache);
  if (!options.is_quiet) tell_packs(name, packed->index().counts, options.sequence_length);
  return packed;
}

GptSources::GptSources(GptSourceOptions options)
    : DataSources(options.poll), options_(std::move(options)) {
  check_gpt_options(options_.batch);
}

std::shared_ptr<const SampleSource> GptSources::samples_in(
    std::shared_ptr<const TokenSequences> sequences, IndexRange range,
    std::optional<std::int64_t> samples) const {
  if (options_.packing != DocumentPacking::kWrapped) {
    return packed_source(options_, std::move(sequences), range, samples);
  }
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
  return samples_in(file, range, samples);
}

std::shared_ptr<const SampleSource> GptSources::make_mock(const SourceRequest& request) {
  if (request.samples == 0) return nullptr;
  if (!mock_) {
    mock_ = std::make_shared<const MockSequences>(options_.vocabulary_size, options_.batch.eod);
  }
  const IndexRange range = range_of(mock_->name(), mock_->sequences(), request, false);
  if (range.size() == 0) return nullptr;
  return make_named(mock_->name(), range, request.kind,
                    [&] { return samples_in(mock_, range, request.samples); });
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
