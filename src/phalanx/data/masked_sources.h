#pragma once
// The sources of BERT's and T5's samples. Their datasets have one sequence a sentence
// (preprocess-data --split-sentences), and --split divides documents.

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "phalanx/data/bert_samples.h"
#include "phalanx/data/data_sources.h"
#include "phalanx/data/t5_samples.h"

namespace phalanx {

// ConfigErrors of both: what BertDataset and T5Dataset say of the vocabulary and the lengths.
class BertSources final : public DataSources {
 public:
  explicit BertSources(BertOptions options);

  // ConfigError: made-up documents have no sentences.
  std::shared_ptr<const SampleSource> make_mock(const SourceRequest& request) override;

 private:
  std::string_view element_name() const override { return "documents"; }
  std::int64_t elements(const IndexedDataset& file) const override { return file.documents(); }
  std::shared_ptr<const SampleSource> samples_of(
      const std::shared_ptr<const IndexedDataset>& file, IndexRange range,
      std::optional<std::int64_t> samples) const override;

  BertOptions options_;
};

// Warns where the decoder, or the sentinels, may be too few for some sample.
class T5Sources final : public DataSources {
 public:
  explicit T5Sources(T5Options options);

  // ConfigError: made-up documents have no sentences.
  std::shared_ptr<const SampleSource> make_mock(const SourceRequest& request) override;

 private:
  std::string_view element_name() const override { return "documents"; }
  std::int64_t elements(const IndexedDataset& file) const override { return file.documents(); }
  std::shared_ptr<const SampleSource> samples_of(
      const std::shared_ptr<const IndexedDataset>& file, IndexRange range,
      std::optional<std::int64_t> samples) const override;

  T5Options options_;
};

}  // namespace phalanx
