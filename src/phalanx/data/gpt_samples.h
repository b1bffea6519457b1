#pragma once
// Samples of a GPT from a data set.

#include <cstdint>
#include <memory>
#include <span>

#include "phalanx/base/batch_schema.h"
#include "phalanx/data/gpt_columns.h"
#include "phalanx/data/gpt_dataset.h"
#include "phalanx/data/sample_source.h"

namespace phalanx {

// The windows of a data set.
class GptSamples final : public SampleSource {
 public:
  // ConfigError as check_gpt_options(). The schema is gpt_batch_schema() (base/text_batches.h) of
  // the data set's sequence length.
  GptSamples(std::shared_ptr<const GptDataset> dataset, const GptBatchOptions& options,
             BatchSchema schema);

  std::int64_t size() const override { return dataset_->size(); }
  const BatchSchema& schema() const override { return schema_; }
  int losses() const override { return 1; }
  void fetch(std::int64_t index, Sample& sample, std::span<double> counts) const override;

 private:
  std::shared_ptr<const GptDataset> dataset_;
  GptBatchOptions options_;
  BatchSchema schema_;
};

}  // namespace phalanx
