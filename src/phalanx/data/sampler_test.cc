#include "phalanx/data/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include "phalanx/data/sample_counts.h"
#include "phalanx/data/test_files.h"

namespace phalanx {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Those of the next microbatch in the data set.
std::vector<std::int64_t> next_indices(Sampler& sampler) {
  std::vector<std::int64_t> indices;
  for (const SampleId& sample : sampler.next()) indices.push_back(sample.index);
  return indices;
}

TEST(SequentialSampler, RanksTakeConsecutiveParts) {
  for (std::int64_t rank = 0; rank < 3; ++rank) {
    SequentialSampler sampler({.total_samples = 12,
                               .consumed_samples = 0,
                               .micro_batch_size = 2,
                               .data_parallel_rank = rank,
                               .data_parallel_size = 3});
    EXPECT_THAT(next_indices(sampler), ElementsAre(2 * rank, 2 * rank + 1));
    EXPECT_THAT(next_indices(sampler), ElementsAre(6 + 2 * rank, 7 + 2 * rank));
    EXPECT_EQ(sampler.consumed_samples(), 12);
  }
}

TEST(SequentialSampler, ResumesExactly) {
  SamplerOptions options{.total_samples = 40,
                         .consumed_samples = 0,
                         .micro_batch_size = 3,
                         .data_parallel_rank = 1,
                         .data_parallel_size = 2};
  SequentialSampler whole(options);
  for (int step = 0; step < 6; ++step) {
    options.consumed_samples = whole.consumed_samples();
    SequentialSampler resumed(options);
    EXPECT_EQ(resumed.next(), whole.next()) << step;
    EXPECT_EQ(resumed.consumed_samples(), whole.consumed_samples());
  }
}

// Which samples make an iteration does not depend on the layout, and a run can resume with another
// one.
TEST(SequentialSampler, AnotherLayoutContinuesTheStream) {
  SequentialSampler one({.total_samples = 24, .consumed_samples = 12, .micro_batch_size = 4});
  EXPECT_THAT(next_indices(one), ElementsAre(12, 13, 14, 15));
  SequentialSampler other({.total_samples = 24,
                           .consumed_samples = one.consumed_samples(),
                           .micro_batch_size = 1,
                           .data_parallel_rank = 1,
                           .data_parallel_size = 2});
  EXPECT_THAT(next_indices(other), ElementsAre(17));
}

TEST(SequentialSampler, ExhaustionNamesTheCounts) {
  SequentialSampler sampler({.total_samples = 11,
                             .consumed_samples = 4,
                             .micro_batch_size = 2,
                             .data_parallel_rank = 0,
                             .data_parallel_size = 2,
                             .name = "valid"});
  EXPECT_THAT(next_indices(sampler), ElementsAre(4, 5));
  EXPECT_THAT(error_of(ErrorCode::kBadData, [&] { sampler.next(); }),
              AllOf(HasSubstr("valid"), HasSubstr("8 of 11"), HasSubstr("needs 4")));
  EXPECT_EQ(sampler.consumed_samples(), 8);
}

TEST(SequentialSampler, RepeatsFromTheFirst) {
  SequentialSampler sampler({.total_samples = 5,
                             .consumed_samples = 2,
                             .micro_batch_size = 2,
                             .data_parallel_rank = 1,
                             .data_parallel_size = 2,
                             .repeats = true});
  // The numbers go on: dropout of the second time is not that of the first.
  EXPECT_THAT(sampler.next(), ElementsAre(SampleId{4, 4}, SampleId{5, 0}));
  EXPECT_THAT(sampler.next(), ElementsAre(SampleId{8, 3}, SampleId{9, 4}));
  EXPECT_EQ(sampler.consumed_samples(), 10);
  error_of(ErrorCode::kConfiguration, [] { SequentialSampler({.repeats = true}); });
}

TEST(SequentialSampler, ConsumedMoreThanThereIs) {
  SequentialSampler sampler({.total_samples = 10, .consumed_samples = 20});
  error_of(ErrorCode::kBadData, [&] { sampler.next(); });
}

TEST(SequentialSampler, RefusesNonsense) {
  const std::vector<SamplerOptions> bad{
      {.total_samples = -1},
      {.total_samples = 9, .consumed_samples = -1},
      {.total_samples = 9, .micro_batch_size = 0},
      {.total_samples = 9, .data_parallel_rank = 1},
      {.total_samples = 9, .micro_batch_size = 1LL << 40, .data_parallel_size = 1LL << 40}};
  for (const auto& options : bad) {
    error_of(ErrorCode::kConfiguration, [&] { SequentialSampler{options}; });
  }
}

TEST(RequestedSamples, FollowsTheIterations) {
  EXPECT_EQ(requested_samples(
                {.train_iters = 1000, .global_batch = 8, .eval_interval = 100, .eval_iters = 10}),
            (SampleCounts{8000, 11 * 10 * 8, 80}));
  EXPECT_EQ(requested_samples(
                {.train_iters = 99, .global_batch = 8, .eval_interval = 100, .eval_iters = 10}),
            (SampleCounts{792, 80, 80}));
  EXPECT_EQ(requested_samples({.train_iters = 99, .global_batch = 8, .eval_iters = 10}),
            (SampleCounts{792, 80, 80}));
  EXPECT_EQ(requested_samples({.train_iters = 10, .global_batch = 8, .train_samples = 77}),
            (SampleCounts{77, 0, 0}));
  EXPECT_EQ((SampleCounts{1, 2, 3}.of(SplitKind::kTest)), 3);
}

TEST(RequestedSamples, RefusesNonsense) {
  error_of(ErrorCode::kConfiguration,
           [] { requested_samples({.train_iters = 5, .global_batch = 0}); });
  error_of(ErrorCode::kConfiguration,
           [] { requested_samples({.train_iters = -5, .global_batch = 1}); });
  error_of(ErrorCode::kConfiguration,
           [] { requested_samples({.train_iters = 5, .global_batch = 1, .eval_interval = 0}); });
  error_of(ErrorCode::kConfiguration, [] {
    requested_samples({.train_iters = std::numeric_limits<std::int64_t>::max(), .global_batch = 2});
  });
}

// Whatever batches come one after the other: ranks share out the samples that follow.
TEST(SequentialSampler, ABatchIsTheSamplesThatFollow) {
  for (const std::int64_t ranks : {1, 2, 4}) {
    std::vector<SequentialSampler> samplers;
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      samplers.emplace_back(SamplerOptions{.total_samples = 100,
                                           .micro_batch_size = 2,
                                           .data_parallel_rank = rank,
                                           .data_parallel_size = ranks});
    }
    std::int64_t consumed = 0;
    for (const std::int64_t batch : {8, 8, 16, 24, 8}) {
      std::vector<std::int64_t> samples;
      for (SequentialSampler& sampler : samplers) {
        for (std::int64_t microbatch = 0; microbatch < batch / (2 * ranks); ++microbatch) {
          for (const std::int64_t index : next_indices(sampler)) samples.push_back(index);
        }
      }
      std::ranges::sort(samples);
      std::vector<std::int64_t> expected(static_cast<std::size_t>(batch));
      std::iota(expected.begin(), expected.end(), consumed);
      EXPECT_EQ(samples, expected) << ranks;
      consumed += batch;
    }
  }
}

}  // namespace
}  // namespace phalanx
