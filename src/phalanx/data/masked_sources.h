#pragma once
// The sources of BERT's and T5's samples. Their datasets have one sequence a sentence
// (preprocess-data --split-sentences), and --split divides documents.

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/data/bert_samples.h"
#include "phalanx/data/data_sources.h"
#include "phalanx/data/t5_samples.h"

namespace phalanx {

// Sources of masked samples: `Samples` reads a `Dataset` of one file.
template <typename Options, typename Dataset, typename Samples>
class MaskedSources : public DataSources {
 public:
  // ConfigError: made-up documents have no sentences.
  std::shared_ptr<const SampleSource> make_mock(const SourceRequest& /*request*/) final {
    throw ConfigError(
        "--mock-data: made-up documents have no sentences, which samples of {} are made of; give "
        "--data-path",
        model_);
  }

 protected:
  MaskedSources(std::string_view model, Options options)
      : DataSources(options.common.poll), model_(model), options_(std::move(options)) {}

  const Options& options() const { return options_; }

 private:
  std::string_view element_name() const final { return "documents"; }
  std::int64_t elements(const IndexedDataset& file) const final { return file.documents(); }
  std::shared_ptr<const SampleSource> samples_of(const std::shared_ptr<const IndexedDataset>& file,
                                                 IndexRange range,
                                                 std::optional<std::int64_t> samples) const final {
    return std::make_shared<const Samples>(
        std::make_shared<const Dataset>(file, range, samples, options_));
  }

  std::string_view model_;
  Options options_;
};

// ConfigErrors of both: what BertDataset and T5Dataset say of the vocabulary and the lengths.
class BertSources final : public MaskedSources<BertOptions, BertDataset, BertSamples> {
 public:
  explicit BertSources(BertOptions options);
};

// Warns where the decoder, or the sentinels, may be too few for some sample.
class T5Sources final : public MaskedSources<T5Options, T5Dataset, T5Samples> {
 public:
  explicit T5Sources(T5Options options);
};

}  // namespace phalanx
