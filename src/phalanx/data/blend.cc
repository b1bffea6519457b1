#include "phalanx/data/blend.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "phalanx/base/error.h"
#include "phalanx/base/memory_need.h"
#include "phalanx/base/numeric.h"

namespace phalanx {
namespace {

// The factor by which Megatron requests more of each data set than its share.
constexpr double kSurplus = 0.005;
constexpr std::int64_t kSamplesBetweenPolls = 1 << 16;
// Samples of a block for each data set: its counts take 8 bytes of each.
constexpr std::int64_t kBlockPerDataset = 16;
constexpr std::int64_t kLeastBlock = 1024;

// numpy.sum of contiguous doubles.
double numpy_sum(std::span<const double> values) {
  constexpr std::size_t kLanes = 8;
  constexpr std::size_t kBlock = 128;
  const std::size_t n = values.size();
  if (n < kLanes) return std::accumulate(values.begin(), values.end(), 0.0);
  if (n > kBlock) {
    std::size_t half = n / 2;
    half -= half % kLanes;
    return numpy_sum(values.first(half)) + numpy_sum(values.subspan(half));
  }
  std::array<double, kLanes> lanes;
  std::copy_n(values.begin(), kLanes, lanes.begin());
  std::size_t i = kLanes;
  for (; i + kLanes <= n; i += kLanes) {
    for (std::size_t k = 0; k < kLanes; ++k) lanes[k] += values[i + k];
  }
  double sum = ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) +
               ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
  for (; i < n; ++i) sum += values[i];
  return sum;
}

double ceil_share(std::int64_t target, double weight) {
  return std::ceil(static_cast<double>(target) * weight);
}

std::int64_t to_count(double samples) {
  if (!(samples < 9e18)) throw ConfigError("{} samples are more than can be counted", samples);
  return static_cast<std::int64_t>(samples);
}

void check_datasets(std::size_t datasets) {
  if (static_cast<std::int64_t>(datasets) > kMostBlended) {
    throw ConfigError(
        "{} datasets are more than can be blended ({}): join some of them (phalanx "
        "dataset merge)",
        datasets, kMostBlended);
  }
}

}  // namespace

// Weights, and how many samples each data set has given, as doubles: exact up to 2^53.
class BlendBuilder {
 public:
  BlendBuilder(std::vector<double> weights, std::int64_t size)
      : weights_(std::move(weights)), given_(weights_.size(), 0.0) {
    const auto datasets = static_cast<std::int64_t>(weights_.size());
    index_.block_ = std::max(kLeastBlock, kBlockPerDataset * datasets);
    const double blocks = std::ceil(static_cast<double>(size) / static_cast<double>(index_.block_));
    expect_memory(
        fmt::format("the order of {} samples of {} datasets", format_count(size), datasets),
        static_cast<double>(size) * sizeof(std::uint16_t) +
            blocks * static_cast<double>(datasets) * sizeof(std::int64_t),
        "train for fewer samples");
    index_.counts_.resize(weights_.size());
    index_.datasets_.reserve(static_cast<std::size_t>(size));
    index_.before_.reserve(static_cast<std::size_t>(ceil_div(size, index_.block_) * datasets));
  }

  // The data set that is farthest behind its share, the first of equal ones.
  std::size_t next() const {
    const std::size_t datasets = weights_.size();
    const auto samples = static_cast<double>(std::max<std::int64_t>(index_.size(), 1));
    const auto behind = [&](std::size_t d) { return weights_[d] * samples - given_[d]; };
    // Several maxima at once, so that the compiler can vectorise; the position is found afterwards.
    constexpr std::size_t kLanes = 8;
    std::array<double, kLanes> most;
    most.fill(-std::numeric_limits<double>::infinity());
    std::size_t d = 0;
    for (; d + kLanes <= datasets; d += kLanes) {
      for (std::size_t k = 0; k < kLanes; ++k) {
        const double value = behind(d + k);
        most[k] = value > most[k] ? value : most[k];
      }
    }
    for (; d < datasets; ++d) most[0] = std::max(most[0], behind(d));
    const double largest = *std::ranges::max_element(most);
    d = 0;
    while (behind(d) != largest) ++d;
    return d;
  }

  void take(std::size_t dataset) {
    if (index_.size() % index_.block_ == 0) {
      index_.before_.insert(index_.before_.end(), index_.counts_.begin(), index_.counts_.end());
    }
    index_.datasets_.push_back(static_cast<std::uint16_t>(dataset));
    given_[dataset] += 1.0;
    ++index_.counts_[dataset];
  }

  std::int64_t given(std::size_t dataset) const { return index_.counts_[dataset]; }
  std::int64_t size() const { return index_.size(); }
  // So that it is never chosen again.
  void leave_out(std::size_t dataset) { given_[dataset] = std::numeric_limits<double>::infinity(); }
  BlendIndex done() { return std::move(index_); }

 private:
  std::vector<double> weights_;
  std::vector<double> given_;
  BlendIndex index_;
};

std::vector<double> normalized_weights(std::span<const double> weights) {
  const double sum = numpy_sum(weights);
  std::vector<double> normalized(weights.begin(), weights.end());
  for (double& weight : normalized) weight /= sum;
  return normalized;
}

std::int64_t blended_request(std::int64_t target, double weight) {
  return to_count(std::ceil(ceil_share(target, weight) * (1.0 + kSurplus)));
}

std::int64_t blended_size(std::int64_t target, std::span<const double> weights) {
  double size = 0.0;
  for (const double weight : weights) size += ceil_share(target, weight);
  return to_count(size);
}

BlendedSample BlendIndex::at(std::int64_t i) const {
  PHALANX_CHECK(i >= 0 && i < size(), "sample {} of {}", i, size());
  const std::int64_t block = i / block_;
  const auto begin = datasets_.begin() + block * block_;
  const std::uint16_t dataset = datasets_[static_cast<std::size_t>(i)];
  const auto before = static_cast<std::size_t>(block) * counts_.size() + dataset;
  return {.dataset = dataset,
          .sample = before_[before] + std::count(begin, datasets_.begin() + i, dataset)};
}

BlendIndex blend_by_weights(std::span<const double> weights, std::int64_t size,
                            std::span<const std::int64_t> available,
                            const std::function<void()>& poll) {
  check_datasets(weights.size());
  PHALANX_CHECK(!weights.empty() && available.size() == weights.size() && size >= 0,
                "a blend of {} data sets", weights.size());
  size = std::min(size, std::accumulate(available.begin(), available.end(), std::int64_t{0}));
  BlendBuilder builder({weights.begin(), weights.end()}, size);
  while (builder.size() < size) {
    if (poll && builder.size() % kSamplesBetweenPolls == 0) poll();
    const std::size_t dataset = builder.next();
    if (builder.given(dataset) == available[dataset]) break;
    builder.take(dataset);
  }
  return builder.done();
}

BlendIndex blend_exhaustively(std::span<const std::int64_t> sizes,
                              const std::function<void()>& poll) {
  check_datasets(sizes.size());
  const std::int64_t total = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  std::vector<double> weights;
  for (const std::int64_t size : sizes) {
    weights.push_back(static_cast<double>(size) / static_cast<double>(total));
  }
  BlendBuilder builder(weights, total);
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 0) builder.leave_out(d);
  }
  while (builder.size() < total) {
    if (poll && builder.size() % kSamplesBetweenPolls == 0) poll();
    const std::size_t dataset = builder.next();
    builder.take(dataset);
    if (builder.given(dataset) == sizes[dataset]) builder.leave_out(dataset);
  }
  return builder.done();
}

}  // namespace phalanx
