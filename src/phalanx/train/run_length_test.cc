#include "phalanx/train/run_length.h"

#include <gtest/gtest.h>

namespace phalanx {
namespace {

TrainConfig by_iterations(std::int64_t batch, std::int64_t iterations) {
  TrainConfig c;
  c.layout.global_batch_size = batch;
  c.run.train_iters = iterations;
  c.run.eval_interval = 4;
  c.run.eval_iters = 2;
  return c;
}

TrainConfig by_samples(std::int64_t batch, std::int64_t samples) {
  TrainConfig c = by_iterations(batch, 0);
  c.run.train_samples = samples;
  return c;
}

TEST(RunLength, FromTheBeginning) {
  const RunLength iterations(by_iterations(8, 10));
  EXPECT_EQ(iterations.last_iteration(), 10);
  EXPECT_EQ(iterations.left_over(), 0);
  EXPECT_EQ(iterations.global_batch(24), 8);
  EXPECT_EQ(iterations.requested(), (SampleCounts{80, 3 * 2 * 8, 2 * 8}));
  EXPECT_EQ(iterations.needed(), iterations.requested());

  const RunLength samples(by_samples(16, 200));
  EXPECT_EQ(samples.last_iteration(), 12);
  EXPECT_EQ(samples.left_over(), 8);
  // Megatron's order is that of all samples asked for, also of those that are not trained.
  EXPECT_EQ(samples.requested(), (SampleCounts{200, 4 * 2 * 16, 2 * 16}));
  EXPECT_EQ(samples.needed(), (SampleCounts{192, 4 * 2 * 16, 2 * 16}));
}

// What was consumed with another batch counts as it is.
TEST(RunLength, SamplesAreCountedAcrossBatchSizes) {
  const RunPosition begin{
      .iteration = 3, .consumed_train_samples = 12, .consumed_valid_samples = 10};
  const RunLength larger(by_samples(8, 48), begin);
  EXPECT_EQ(larger.last_iteration(), 3 + 4);
  EXPECT_EQ(larger.left_over(), 4);
  // Evaluations after iterations 4 and 7.
  EXPECT_EQ(larger.needed(), (SampleCounts{44, 10 + 2 * 2 * 8, 16}));
  const RunLength smaller(by_samples(2, 48), begin);
  EXPECT_EQ(smaller.last_iteration(), 3 + 18);
  EXPECT_EQ(smaller.left_over(), 0);
  EXPECT_EQ(smaller.needed().train, 48);

  const RunLength iterations(by_iterations(8, 10), begin);
  EXPECT_EQ(iterations.last_iteration(), 10);
  EXPECT_EQ(iterations.needed().train, 12 + 7 * 8);
}

TEST(RunLength, NothingIsLeft) {
  const RunLength samples(
      by_samples(8, 48),
      {.iteration = 9, .consumed_train_samples = 45, .consumed_valid_samples = 6});
  EXPECT_EQ(samples.last_iteration(), 9);
  EXPECT_EQ(samples.left_over(), 3);
  EXPECT_EQ(samples.needed(), (SampleCounts{45, 6 + 16, 16}));
  // A shorter run than there was.
  const RunLength beyond(by_samples(8, 40), {.iteration = 9, .consumed_train_samples = 45});
  EXPECT_EQ(beyond.last_iteration(), 9);
  EXPECT_EQ(beyond.left_over(), 0);
  const RunLength iterations(by_iterations(8, 5), {.iteration = 9, .consumed_train_samples = 72});
  EXPECT_EQ(iterations.last_iteration(), 9);
}

TEST(RunLength, APlanHasNone) { EXPECT_EQ(RunLength(by_iterations(8, 0)).last_iteration(), 0); }

// One that was given up is read once more.
TEST(RunLength, AnEvaluationThatIsDueNeedsItsSamples) {
  RunPosition begin{.iteration = 4, .consumed_train_samples = 32};
  EXPECT_EQ(RunLength(by_iterations(8, 10), begin).needed().valid, 2 * 16);
  begin.evaluation_is_due = true;
  EXPECT_EQ(RunLength(by_iterations(8, 10), begin).needed().valid, 3 * 16);
}

}  // namespace
}  // namespace phalanx
