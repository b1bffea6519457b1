#pragma once
// The permutation that `torch.randperm(n, generator=g)` draws on a CPU after `g.manual_seed(seed)`:
// the order of Megatron's random sampler.

#include <cstdint>
#include <vector>

namespace phalanx {

// ConfigError beyond 2^32 values. From kTorchLargePermutation on torch draws in another way.
inline constexpr std::int64_t kTorchLargePermutation = 4294967295 / 20;
std::vector<std::uint32_t> torch_permutation(std::int64_t n, std::uint64_t seed);

}  // namespace phalanx
