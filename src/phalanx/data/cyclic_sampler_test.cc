#include "phalanx/data/cyclic_sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "phalanx/data/test_files.h"
#include "phalanx/data/torch_random.h"

namespace phalanx {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

SamplerOptions options(std::int64_t total, std::int64_t consumed, std::int64_t batch,
                       std::int64_t rank, std::int64_t ranks) {
  return {.total_samples = total,
          .consumed_samples = consumed,
          .micro_batch_size = batch,
          .data_parallel_rank = rank,
          .data_parallel_size = ranks};
}

// torch.randperm(8) with seed 0 and then 1: the epochs of ten samples in steps of 4.
TEST(CyclicSampler, OneRankFollowsTorch) {
  CyclicSampler sampler(options(10, 0, 4, 0, 1), true);
  EXPECT_THAT(sampler.next(),
              ElementsAre(SampleId{0, 4}, SampleId{1, 0}, SampleId{2, 7}, SampleId{3, 3}));
  EXPECT_THAT(sampler.next(),
              ElementsAre(SampleId{4, 2}, SampleId{5, 5}, SampleId{6, 1}, SampleId{7, 6}));
  EXPECT_THAT(sampler.next(),
              ElementsAre(SampleId{8, 5}, SampleId{9, 4}, SampleId{10, 2}, SampleId{11, 6}));
}

// As Megatron's comprehension reads: randperm(bucket)[offset / ranks:] + rank * bucket, and
// randperm(total // batch * batch)[offset:][rank::ranks].
TEST(CyclicSampler, RanksFollowMegatron) {
  for (const bool sharded : {true, false}) {
    for (std::int64_t rank = 0; rank < 3; ++rank) {
      CyclicSampler sampler(options(23, 18 + 6, 2, rank, 3), sharded);
      const auto order = torch_permutation(sharded ? 6 : 22, 1);
      for (std::int64_t step = 1; step < 3; ++step) {
        for (std::int64_t i = 0; const SampleId& sample : sampler.next()) {
          const std::int64_t expected =
              sharded ? rank * 6 + order[step * 2 + i] : order[6 + ((step - 1) * 2 + i) * 3 + rank];
          EXPECT_EQ(sample.index, expected) << sharded << " " << rank << " " << step;
          ++i;
        }
      }
    }
  }
}

// All ranks together take every number of the stream once, and every sample once an epoch.
TEST(CyclicSampler, AnEpochHasEverySampleOnce) {
  for (const bool sharded : {true, false}) {
    for (const std::int64_t ranks : {1, 2, 3}) {
      for (const std::int64_t batch : {1, 2, 4}) {
        const std::int64_t total = 53;
        const std::int64_t epoch = total - total % (ranks * batch);
        std::vector<std::set<std::int64_t>> indices(3);
        std::set<std::int64_t> numbers;
        for (std::int64_t rank = 0; rank < ranks; ++rank) {
          CyclicSampler sampler(options(total, 0, batch, rank, ranks), sharded);
          while (sampler.consumed_samples() < 3 * epoch) {
            for (const SampleId& sample : sampler.next()) {
              EXPECT_TRUE(numbers.insert(sample.number).second);
              EXPECT_TRUE(indices[static_cast<std::size_t>(sample.number / epoch)]
                              .insert(sample.index)
                              .second);
              EXPECT_LT(sample.index, total);
            }
          }
        }
        EXPECT_EQ(*numbers.rbegin(), 3 * epoch - 1);
        EXPECT_EQ(std::ssize(numbers), 3 * epoch);
        EXPECT_NE(indices[0].size(), 0U);
      }
    }
  }
}

TEST(CyclicSampler, ResumesExactly) {
  for (const bool sharded : {true, false}) {
    CyclicSampler whole(options(50, 0, 3, 1, 2), sharded);
    for (int step = 0; step < 20; ++step) {
      CyclicSampler resumed(options(50, whole.consumed_samples(), 3, 1, 2), sharded);
      EXPECT_EQ(resumed.next(), whole.next()) << step;
    }
  }
}

// Without shards, what a global batch holds does not depend on how it is cut into microbatches.
TEST(CyclicSampler, WithoutShardsABatchIsTheSame) {
  const auto batch = [](std::int64_t micro, std::int64_t ranks) {
    std::set<std::pair<std::int64_t, std::int64_t>> samples;
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      CyclicSampler sampler(options(48, 24, micro, rank, ranks), false);
      while (sampler.consumed_samples() < 36) {
        for (const SampleId& sample : sampler.next()) {
          samples.insert({sample.number, sample.index});
        }
      }
    }
    return samples;
  };
  EXPECT_EQ(batch(1, 1).size(), 12U);
  EXPECT_EQ(batch(1, 1), batch(2, 3));
  EXPECT_EQ(batch(1, 1), batch(3, 2));
}

TEST(CyclicSampler, RefusesWhatItCannotGoOnWith) {
  EXPECT_THAT(
      error_of(ErrorCode::kConfiguration, [] { CyclicSampler(options(50, 8, 3, 0, 2), true); }),
      HasSubstr("8 train samples are consumed"));
  EXPECT_THAT(
      error_of(ErrorCode::kConfiguration, [] { CyclicSampler(options(5, 0, 3, 0, 2), true); }),
      HasSubstr("5 samples, too few"));
}

TEST(MakeSampler, ByType) {
  EXPECT_THAT(make_sampler(SamplerType::kSingle, true, options(10, 0, 2, 0, 1))->next(),
              ElementsAre(SampleId{0, 0}, SampleId{1, 1}));
  EXPECT_THAT(make_sampler(SamplerType::kCyclic, true, options(8, 0, 2, 0, 1))->next(),
              ElementsAre(SampleId{0, 4}, SampleId{1, 0}));
}

}  // namespace
}  // namespace phalanx
