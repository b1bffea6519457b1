#pragma once
// The sources of a GPT's samples.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "phalanx/data/data_sources.h"
#include "phalanx/data/document_packing.h"
#include "phalanx/data/gpt_dataset.h"
#include "phalanx/data/gpt_samples.h"

namespace phalanx {

struct GptSourceOptions {
  BatchSchema schema;  // gpt_batch_schema() (base/text_batches.h)
  GptBatchOptions batch;
  std::int64_t sequence_length = 0;
  // Ids must be below this (the tokenizer's size, not the padded one).
  std::int64_t vocabulary_size = 0;
  std::uint32_t seed = 1234;
  DataOrder order = DataOrder::kMegatron;
  DocumentPacking packing = DocumentPacking::kWrapped;
  std::int64_t document_multiple = 1;    // PackIndexOptions, where documents are packed
  std::function<void()> poll = nullptr;  // GptIndexOptions
  const IndexCache* cache = nullptr;     // none: in memory
  bool is_quiet = false;                 // nothing is said of packs and conversations
};

// The samples of whole sequences, packed as the options say, which is not kWrapped; the log says
// how well. ConfigError as PackedSamples.
std::shared_ptr<const SampleSource> packed_source(const GptSourceOptions& options,
                                                  std::shared_ptr<const TokenSequences> sequences,
                                                  IndexRange range,
                                                  std::optional<std::int64_t> samples);

// --split divides sequences.
class GptSources final : public DataSources {
 public:
  // ConfigError where a batch option needs an end-of-document id and there is none.
  explicit GptSources(GptSourceOptions options);

  // A source of MockSequences.
  std::shared_ptr<const SampleSource> make_mock(const SourceRequest& request) override;
  std::int64_t tokens() const override;
  std::int64_t documents() const override;

 private:
  std::string_view element_name() const override { return "sequences"; }
  std::int64_t elements(const IndexedDataset& file) const override { return file.sequences(); }
  std::shared_ptr<const SampleSource> samples_of(
      const std::shared_ptr<const IndexedDataset>& file, IndexRange range,
      std::optional<std::int64_t> samples) const override;
  std::shared_ptr<const SampleSource> samples_in(std::shared_ptr<const TokenSequences> sequences,
                                                 IndexRange range,
                                                 std::optional<std::int64_t> samples) const;

  GptSourceOptions options_;
  std::shared_ptr<const TokenSequences> mock_;
};

}  // namespace phalanx
