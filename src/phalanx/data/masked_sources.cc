#include "phalanx/data/masked_sources.h"

#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/log.h"

namespace phalanx {
namespace {

[[noreturn]] void refuse_mock(std::string_view model) {
  throw ConfigError(
      "--mock-data: made-up documents have no sentences, which samples of {} are made of; give "
      "--data-path",
      model);
}

}  // namespace

BertSources::BertSources(BertOptions options)
    : DataSources(options.common.poll), options_(std::move(options)) {
  check_bert_options(options_);
}

std::shared_ptr<const SampleSource> BertSources::make_mock(const SourceRequest& /*request*/) {
  refuse_mock("BERT");
}

std::shared_ptr<const SampleSource> BertSources::samples_of(
    const std::shared_ptr<const IndexedDataset>& file, IndexRange range,
    std::optional<std::int64_t> samples) const {
  return std::make_shared<const BertSamples>(
      std::make_shared<const BertDataset>(file, range, samples, options_));
}

T5Sources::T5Sources(T5Options options)
    : DataSources(options.common.poll), options_(std::move(options)) {
  check_t5_options(options_);
  if (const std::int64_t most = most_decoder_tokens(options_);
      most > options_.decoder_sequence_length) {
    log_warning(
        "--decoder-seq-length {}: a sample can have up to {} tokens there (every masked token a "
        "span of its own). The run ends with an error if one does not fit",
        options_.decoder_sequence_length, most);
  }
  const auto sentinels = std::ssize(options_.common.vocabulary->sentinels);
  if (const std::int64_t most = most_spans(options_); most > sentinels) {
    log_warning(
        "--vocab-extra-ids {}: a sample can have up to {} spans. The run ends with an error if one "
        "has more than there are sentinels",
        sentinels, most);
  }
}

std::shared_ptr<const SampleSource> T5Sources::make_mock(const SourceRequest& /*request*/) {
  refuse_mock("T5");
}

std::shared_ptr<const SampleSource> T5Sources::samples_of(
    const std::shared_ptr<const IndexedDataset>& file, IndexRange range,
    std::optional<std::int64_t> samples) const {
  return std::make_shared<const T5Samples>(
      std::make_shared<const T5Dataset>(file, range, samples, options_));
}

}  // namespace phalanx
