#pragma once
// `--dataloader-type cyclic`: a new order every epoch, torch's permutation with the epoch's number
// as seed (--seed has no part in it), as Megatron's random sampler draws it. An epoch is the data
// set without the rest that does not fill a microbatch of all data-parallel ranks. The order
// depends on micro batch x data-parallel size; with sharding, the default, also on how it is
// factored: each rank then permutes a part of the data set of its own.

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "phalanx/data/sampler.h"

namespace phalanx {

enum class SamplerType { kSingle, kCyclic };

class CyclicSampler final : public Sampler {
 public:
  // ConfigError as check_sampler(), where the data set has not one microbatch of all ranks, and
  // where the consumed samples are no whole ones.
  CyclicSampler(SamplerOptions options, bool sharded);

  std::vector<SampleId> next() override;
  std::int64_t consumed_samples() const override { return options_.consumed_samples; }
  // Samples of an epoch, by all ranks.
  std::int64_t epoch_samples() const { return epoch_samples_; }

 private:
  void permute(std::int64_t epoch);

  SamplerOptions options_;
  bool sharded_;
  std::int64_t epoch_samples_;
  std::int64_t epoch_ = -1;  // that the order is of
  std::vector<std::uint32_t> order_;
};

// `sharded`: of kCyclic alone. kCyclic begins again by itself, with another order.
std::unique_ptr<Sampler> make_sampler(SamplerType type, bool sharded, SamplerOptions options);

}  // namespace phalanx
