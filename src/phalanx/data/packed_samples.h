#pragma once
// Samples of a GPT that are whole documents side by side. Rows of a document see rows of it alone,
// and its positions begin at 0. Its last row has no label; behind the last document is padding,
// which nobody sees, and behind each, where documents take a multiple of some number of rows.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "phalanx/base/batch_schema.h"
#include "phalanx/data/gpt_columns.h"
#include "phalanx/data/pack_index.h"
#include "phalanx/data/sample_source.h"
#include "phalanx/data/split.h"
#include "phalanx/data/token_sequences.h"

namespace phalanx {

class PackedSamples final : public SampleSource {
 public:
  // Over the sequences in `range`, whose ids must be below `vocabulary_size`. Of the batch options
  // only eod_mask_loss and averages_documents say more than packing does. The schema is
  // gpt_batch_schema() (base/text_batches.h). ConfigError as check_gpt_options() and
  // build_pack_index() say.
  PackedSamples(std::shared_ptr<const TokenSequences> data, IndexRange range,
                std::int64_t vocabulary_size, const PackIndexOptions& index,
                const GptBatchOptions& batch, BatchSchema schema,
                const IndexCache* cache = nullptr);

  std::int64_t size() const override { return size_; }
  const BatchSchema& schema() const override { return schema_; }
  int losses() const override { return 1; }
  void fetch(std::int64_t index, Sample& sample, std::span<double> counts) const override;

  std::optional<double> mean_of_documents(const DocumentMeasure& measure) const override;

  const PackIndex& index() const { return index_; }

 private:
  [[noreturn]] void refuse_index(std::int64_t i) const;

  std::shared_ptr<const TokenSequences> data_;
  IndexRange range_;
  std::int64_t vocabulary_size_;
  std::int64_t sequence_length_, document_multiple_;
  GptBatchOptions batch_;
  BatchSchema schema_;
  PackIndex index_;
  std::int64_t size_;
};

}  // namespace phalanx
