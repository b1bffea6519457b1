#include "phalanx/data/sampler.h"

#include <utility>

#include "phalanx/base/error.h"

namespace phalanx {

void check_sampler(const SamplerOptions& o) {
  std::int64_t step = 0;
  if (o.total_samples < (o.repeats ? 1 : 0) || o.consumed_samples < 0 || o.micro_batch_size < 1 ||
      o.data_parallel_size < 1 || o.data_parallel_rank < 0 ||
      o.data_parallel_rank >= o.data_parallel_size ||
      __builtin_mul_overflow(o.micro_batch_size, o.data_parallel_size, &step)) {
    throw ConfigError(
        "{} sampler: {} of {} samples consumed, micro batch {}, data-parallel rank {} "
        "of {}: these do not fit together",
        o.name, o.consumed_samples, o.total_samples, o.micro_batch_size, o.data_parallel_rank,
        o.data_parallel_size);
  }
}

SequentialSampler::SequentialSampler(SamplerOptions options) : options_(std::move(options)) {
  check_sampler(options_);
}

std::vector<SampleId> SequentialSampler::next() {
  auto& o = options_;
  const std::int64_t step = o.micro_batch_size * o.data_parallel_size;
  if (!o.repeats && step > o.total_samples - o.consumed_samples) {
    throw DataError(
        "the {} data is exhausted: {} of {} samples are consumed and the next microbatch "
        "needs {} (micro batch {} x {} data-parallel ranks)",
        o.name, o.consumed_samples, o.total_samples, step, o.micro_batch_size,
        o.data_parallel_size);
  }
  std::vector<SampleId> samples;
  for (std::int64_t i = 0; i < o.micro_batch_size; ++i) {
    const std::int64_t number = o.consumed_samples + o.data_parallel_rank * o.micro_batch_size + i;
    samples.push_back({.number = number, .index = o.repeats ? number % o.total_samples : number});
  }
  o.consumed_samples += step;
  return samples;
}

}  // namespace phalanx
