#pragma once
// Samples of a GPT from a data set.

#include <cstdint>
#include <span>

#include "phalanx/base/batch_schema.h"
#include "phalanx/data/gpt_columns.h"
#include "phalanx/data/gpt_dataset.h"
#include "phalanx/data/sample_source.h"

namespace phalanx {

// The windows of a data set.
class GptWindows final : public SampleSource {
 public:
  // The data set must outlive this. ConfigError as above. The schema has the columns of GptColumns,
  // with the data set's sequence length as their extent.
  GptWindows(const GptDataset& dataset, const GptBatchOptions& options, BatchSchema schema);

  std::int64_t size() const override { return dataset_.size(); }
  const BatchSchema& schema() const override { return schema_; }
  int losses() const override { return 1; }
  void fetch(std::int64_t index, Sample& sample, std::span<double> counts) const override;

 private:
  const GptDataset& dataset_;
  GptBatchOptions options_;
  BatchSchema schema_;
};

}  // namespace phalanx
