#pragma once
// Which samples a rank reads. A sampler's only state is the number of consumed samples, so resuming
// is constructing it with that number.

#include <cstdint>
#include <string>
#include <vector>

#include "phalanx/data/sample_source.h"

namespace phalanx {

struct SamplerOptions {
  std::int64_t total_samples = 0;
  std::int64_t consumed_samples = 0;  // by all data-parallel ranks together
  std::int64_t micro_batch_size = 1;
  std::int64_t data_parallel_rank = 0;
  std::int64_t data_parallel_size = 1;
  std::string name = "train";  // for messages
  bool repeats = false;        // after the last sample comes the first again
};

// ConfigError where the numbers do not make sense.
void check_sampler(const SamplerOptions& options);

class Sampler {
 public:
  virtual ~Sampler() = default;

  // The samples of this rank's next microbatch: micro_batch of the next micro_batch *
  // data_parallel_size samples of the stream. All ranks together take each number of the stream
  // once.
  virtual std::vector<SampleId> next() = 0;

  // Samples that all ranks have consumed: a checkpoint records it after a whole global batch.
  virtual std::int64_t consumed_samples() const = 0;
};

// `--dataloader-type single`: the samples in the order of the data set. A rank's own are
// consecutive. Where fewer are left than ranks ask for, samples repeat or it is a DataError naming
// the counts (a rest is dropped).
class SequentialSampler final : public Sampler {
 public:
  // ConfigError as check_sampler().
  explicit SequentialSampler(SamplerOptions options);

  std::vector<SampleId> next() override;
  std::int64_t consumed_samples() const override { return options_.consumed_samples; }

 private:
  SamplerOptions options_;
};

}  // namespace phalanx
