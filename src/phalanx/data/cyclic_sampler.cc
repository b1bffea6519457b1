#include "phalanx/data/cyclic_sampler.h"

#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/data/torch_random.h"

namespace phalanx {
namespace {

// The samples of one microbatch of all ranks.
std::int64_t step_of(const SamplerOptions& options) {
  return options.micro_batch_size * options.data_parallel_size;
}

}  // namespace

CyclicSampler::CyclicSampler(SamplerOptions options, bool sharded)
    : options_(std::move(options)), sharded_(sharded) {
  check_sampler(options_);
  const std::int64_t step = step_of(options_);
  epoch_samples_ = options_.total_samples - options_.total_samples % step;
  if (epoch_samples_ == 0) {
    throw ConfigError(
        "the {} data has {} samples, too few for one microbatch of --dataloader-type cyclic, which "
        "is {} (micro batch {} x {} data-parallel ranks)",
        options_.name, options_.total_samples, step, options_.micro_batch_size,
        options_.data_parallel_size);
  }
  if (options_.consumed_samples % epoch_samples_ % step != 0) {
    throw ConfigError(
        "{} {} samples are consumed, which ends no microbatch of {} (micro batch {} x {} "
        "data-parallel ranks) within an epoch of {}: --dataloader-type cyclic goes on with the "
        "sizes that it began with",
        options_.consumed_samples, options_.name, step, options_.micro_batch_size,
        options_.data_parallel_size, epoch_samples_);
  }
}

void CyclicSampler::permute(std::int64_t epoch) {
  if (epoch == epoch_) return;
  const auto& o = options_;
  const std::int64_t count = sharded_ ? epoch_samples_ / o.data_parallel_size
                                      : o.total_samples / o.micro_batch_size * o.micro_batch_size;
  order_ = torch_permutation(count, static_cast<std::uint64_t>(epoch));
  epoch_ = epoch;
}

std::vector<SampleId> CyclicSampler::next() {
  auto& o = options_;
  permute(o.consumed_samples / epoch_samples_);
  const std::int64_t begin = o.consumed_samples % epoch_samples_;
  std::vector<SampleId> samples;
  for (std::int64_t i = 0; i < o.micro_batch_size; ++i) {
    // With shards a rank follows the order of its shard; otherwise ranks take turns in one order.
    const std::int64_t place = sharded_ ? begin / o.data_parallel_size + i
                                        : begin + i * o.data_parallel_size + o.data_parallel_rank;
    const std::int64_t first = sharded_ ? o.data_parallel_rank * std::ssize(order_) : 0;
    const std::int64_t in_step = sharded_ ? o.data_parallel_rank * o.micro_batch_size + i
                                          : i * o.data_parallel_size + o.data_parallel_rank;
    samples.push_back({.number = o.consumed_samples + in_step,
                       .index = first + order_[static_cast<std::size_t>(place)]});
  }
  o.consumed_samples += step_of(o);
  return samples;
}

std::unique_ptr<Sampler> make_sampler(SamplerType type, bool sharded, SamplerOptions options) {
  if (type == SamplerType::kCyclic) {
    return std::make_unique<CyclicSampler>(std::move(options), sharded);
  }
  return std::make_unique<SequentialSampler>(std::move(options));
}

}  // namespace phalanx
