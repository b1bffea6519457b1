#pragma once
// In what order the samples of several data sets follow each other: Megatron's greedy rule, which
// keeps every data set as near to its share as it can be after every sample.

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace phalanx {

// Megatron's index has 16 bits for the data set.
inline constexpr std::int64_t kMostBlended = 32766;

// A sample of a blend: which of its data sets, and which sample of that.
struct BlendedSample {
  std::int64_t dataset = 0;
  std::int64_t sample = 0;
  friend bool operator==(const BlendedSample&, const BlendedSample&) = default;
};

// Weights that add up to 1, rounded as NumPy does (its sum is pairwise).
std::vector<double> normalized_weights(std::span<const double> weights);

// Samples that a data set must have so that `target` of the blend do not run out of it:
// ceil(ceil(target * weight) * 1.005), as Megatron-core since 0.12. (0.8 and before round once.)
std::int64_t blended_request(std::int64_t target, double weight);
// The blend's own samples: the sum of ceil(target * weight).
std::int64_t blended_size(std::int64_t target, std::span<const double> weights);

// Which data set each sample of a blend comes from; a data set's samples come in their order.
// Memory: 2 bytes a sample, and about half of one for the counts.
class BlendIndex {
 public:
  std::int64_t size() const { return static_cast<std::int64_t>(datasets_.size()); }
  BlendedSample at(std::int64_t i) const;
  // Samples of each data set.
  const std::vector<std::int64_t>& counts() const { return counts_; }

 private:
  friend class BlendBuilder;

  std::int64_t block_ = 0;  // samples between those that have the counts before them here:
  std::vector<std::int64_t> before_;
  std::vector<std::uint16_t> datasets_;
  std::vector<std::int64_t> counts_;
};

// `size` samples of data sets with these (normalized) weights: sample i comes from the one of which
// weight * max(i, 1) - samples so far is largest, the first of equal ones. It ends early where a
// data set runs out of its `available` samples. ConfigError for too many data sets. `poll` is
// called every so often; what it throws ends the building.
BlendIndex blend_by_weights(std::span<const double> weights, std::int64_t size,
                            std::span<const std::int64_t> available,
                            const std::function<void()>& poll = nullptr);

// Every sample of data sets of these sizes once, by the same rule with the sizes as weights; one
// that is used up is left out from there on.
BlendIndex blend_exhaustively(std::span<const std::int64_t> sizes,
                              const std::function<void()>& poll = nullptr);

}  // namespace phalanx
