#include "phalanx/cli/chat_sizes.h"

#include <algorithm>
#include <vector>

#include "phalanx/base/numeric.h"

namespace phalanx {
namespace {

constexpr std::int64_t kShareThatFits = 99;  // percent
constexpr std::int64_t kFineStep = 64;
constexpr std::int64_t kCoarseStep = 128;
constexpr std::int64_t kFineSteps = 512;  // up to this length
constexpr std::int64_t kLargestBatch = 16;
constexpr std::int64_t kFewestIterations = 8;  // of an epoch
constexpr std::int64_t kLongestInterval = 500;

}  // namespace

std::int64_t chosen_sequence(std::span<const std::int64_t> lengths, std::int64_t positions) {
  std::vector<std::int64_t> sorted(lengths.begin(), lengths.end());
  // The first that as many are not longer than.
  const std::int64_t fitting = ceil_div(kShareThatFits * std::ssize(sorted), std::int64_t{100});
  std::int64_t length = 1;
  if (fitting > 0) {
    const auto place = sorted.begin() + (fitting - 1);
    std::ranges::nth_element(sorted, place);
    length = *place;
  }
  length = round_up(length, length <= kFineSteps ? kFineStep : kCoarseStep);
  return std::min(length, positions);
}

std::int64_t fitting(std::span<const std::int64_t> lengths, std::int64_t sequence) {
  return std::ranges::count_if(lengths, [&](std::int64_t length) { return length <= sequence; });
}

std::int64_t chosen_batch(std::int64_t samples, std::int64_t samples_together) {
  std::int64_t batch = kLargestBatch;
  while (batch > 1 && ceil_div(samples, batch) < kFewestIterations) batch /= 2;
  return round_up(batch, samples_together);
}

std::int64_t chosen_interval(std::int64_t iterations_of_epoch) {
  const std::int64_t parts = ceil_div(iterations_of_epoch, kLongestInterval);
  return ceil_div(iterations_of_epoch, parts);
}

}  // namespace phalanx
