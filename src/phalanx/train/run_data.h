#pragma once
// The data of a run: tokenizer, datasets of the three splits, and the order in which samples are
// consumed.

#include <functional>
#include <memory>
#include <vector>

#include "phalanx/data/gpt_batch.h"
#include "phalanx/data/gpt_dataset.h"
#include "phalanx/data/loader.h"
#include "phalanx/data/sample_counts.h"
#include "phalanx/data/sampler.h"
#include "phalanx/tokenizer/tokenizer.h"
#include "phalanx/train/config.h"
#include "phalanx/train/rank.h"

namespace phalanx {

class RunData {
 public:
  // `counts` decide the shuffle: those of the flags, or, in a resumed run, those of the checkpoint.
  // `poll` is called every so often meanwhile; what it throws ends the building.
  RunData(const TrainConfig& config, const Tokenizer& tokenizer, const SampleCounts& counts,
          const std::function<void()>& poll = nullptr);

  // Where a resumed run needs more samples than `counts` gave: ConfigError for training data; what
  // is evaluated begins again from its first sample, and a line says so.
  void check_suffices(const SampleCounts& needed) const;
  bool has(SplitKind kind) const { return dataset(kind) != nullptr; }
  const SampleCounts& counts() const { return counts_; }
  // All of it, however it is split.
  const IndexedDataset& file() const { return *file_; }

  // A data-parallel rank's microbatches of one split, from a count of samples that all ranks have
  // consumed on; asked for in order. --num-workers threads read ahead, a global batch of training
  // data, a few microbatches of what is evaluated, from when the first is asked for.
  class Stream {
   public:
    // The threads run on `cores`, or, without, on those of the rank.
    Stream(const RunData& data, SplitKind kind, std::int64_t consumed, int data_rank = 0,
           std::vector<int> cores = {});
    // The microbatches of the next global batch.
    BatchSource source();

   private:
    std::unique_ptr<BatchLoader> loader_;
  };

 private:
  const GptDataset* dataset(SplitKind kind) const;

  TrainConfig config_;
  SampleCounts counts_;
  GptBatchOptions batch_options_;
  std::shared_ptr<const IndexedDataset> file_;
  GptDatasets datasets_;
};

}  // namespace phalanx
