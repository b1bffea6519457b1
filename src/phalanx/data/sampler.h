#pragma once
// Which samples a rank reads: the sequential sampler (`--dataloader-type single`). Its only state
// is the number of consumed samples, so resuming is constructing it with that number.

#include <cstdint>
#include <string>
#include <vector>

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

class SequentialSampler {
 public:
  // ConfigError where the numbers do not make sense.
  explicit SequentialSampler(SamplerOptions options);

  // The samples of this rank's next microbatch: of the next micro_batch * data_parallel_size
  // samples of the stream the rank's own micro_batch consecutive ones. Where fewer are left,
  // samples repeat or it is a DataError naming the counts (a rest is dropped).
  std::vector<std::int64_t> next();

  // Samples that all ranks have consumed: a checkpoint records it after a whole global batch.
  std::int64_t consumed_samples() const { return options_.consumed_samples; }

 private:
  SamplerOptions options_;
};

}  // namespace phalanx
