#pragma once
// The data of a run: sources of the three splits, and the order in which samples are consumed.

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "phalanx/data/data_sources.h"
#include "phalanx/data/loader.h"
#include "phalanx/data/sample_counts.h"
#include "phalanx/data/sample_source.h"
#include "phalanx/data/sampler.h"
#include "phalanx/rank/rank.h"
#include "phalanx/settings/data_settings.h"
#include "phalanx/settings/train_config.h"
#include "phalanx/tokenizer/tokenizer.h"

namespace phalanx {

class RunData {
 public:
  // A set of samples that is trained on or evaluated separately.
  struct Set {
    std::string name;  // where there are several validation sets
    std::shared_ptr<const SampleSource> source;
  };

  // `counts` decide the shuffle: those of the flags, or, in a resumed run, those of the checkpoint.
  // `poll` is called from time to time; an exception of it ends the building. ConfigError,
  // DataError and InputMissingError as DataSources.
  RunData(const TrainConfig& config, const Tokenizer& tokenizer, const SampleCounts& counts,
          const std::function<void()>& poll = nullptr);
  // The same from the data flags alone, to look at samples: batches of one sample.
  RunData(const DataConfig& data, DataSources& sources, const SampleCounts& counts);

  // Where a resumed run needs more samples than `counts`: ConfigError for training data; evaluation
  // data begins again from its first sample, and the log says so.
  void check_suffices(const SampleCounts& needed) const;
  // One set; several where there are several validation sets; none where there is no data.
  const std::vector<Set>& sets(SplitKind kind) const {
    return sets_[static_cast<std::size_t>(kind)];
  }
  bool has(SplitKind kind) const { return !sets(kind).empty(); }
  // Whether an evaluation reads all of the validation data, from its first sample on.
  bool is_read_whole(SplitKind kind) const {
    return config_.data.full_validation && kind == SplitKind::kValid;
  }
  // Global batches of an evaluation.
  std::int64_t evaluation_iterations(SplitKind kind, std::size_t set) const;
  const SampleCounts& counts() const { return counts_; }
  // Of all splits together.
  std::int64_t tokens() const { return tokens_; }
  std::int64_t documents() const { return documents_; }

  // A rank's microbatches of one set, in order: the samples of its data-parallel rank, of these the
  // rows of its context-parallel rank. It begins after `consumed` samples of all ranks. From the
  // first request on --num-workers threads read ahead: a global batch of training data, or a few
  // microbatches of evaluation data.
  class Stream {
   public:
    // The threads run on `cores`; where that is empty, on the cores of the rank.
    Stream(const RunData& data, SplitKind kind, std::int64_t consumed,
           const GridCoordinates& rank = {}, std::size_t set = 0, std::vector<int> cores = {});
    // The microbatches of the next global batch.
    BatchSource source();
    // What each loss counts in the next microbatches, of one global batch (BatchLoader::counts()).
    std::vector<double> counts(int microbatches) { return loader_->counts(microbatches); }

   private:
    std::unique_ptr<BatchLoader> loader_;
  };

 private:
  void make(DataSources& sources);

  TrainConfig config_;
  SampleCounts counts_;
  std::int64_t evaluation_batch_ = 1;
  std::array<std::vector<Set>, kSplitKinds.size()> sets_;
  std::int64_t tokens_ = 0;
  std::int64_t documents_ = 0;
};

}  // namespace phalanx
