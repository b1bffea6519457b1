#include "phalanx/settings/run_length.h"

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

TrainConfig with_rampup(TrainConfig c) {
  c.layout.rampup_batch_size = {"4", "4", "60"};
  c.layout.global_batch_size = 12;
  return c;
}

// Only whole batches: the last 4 of 200 samples would need 12.
TEST(RunLength, ARampIsCountedByItsBatches) {
  const RunLength length(with_rampup(by_samples(12, 200)));
  ASSERT_EQ(length.stretches().size(), 3U);
  const auto expect_stretch = [&](std::size_t i, std::int64_t begin, std::int64_t consumed,
                                  std::int64_t batch, std::int64_t iterations) {
    const RunLength::Stretch& stretch = length.stretches()[i];
    EXPECT_EQ(stretch.begin, begin);
    EXPECT_EQ(stretch.consumed_samples, consumed);
    EXPECT_EQ(stretch.global_batch, batch);
    EXPECT_EQ(stretch.iterations, iterations);
  };
  expect_stretch(0, 0, 0, 4, 8);
  expect_stretch(1, 8, 32, 8, 4);
  expect_stretch(2, 12, 64, 12, 11);
  EXPECT_EQ(length.last_iteration(), 23);
  EXPECT_EQ(length.left_over(), 4);
  EXPECT_EQ(length.needed().train, 196);
  EXPECT_EQ(length.requested().train, 200);
  // Evaluations take the last batch: five at intervals, and the last.
  EXPECT_EQ(length.requested().valid, 6 * 2 * 12);
  EXPECT_EQ(length.needed().valid, 6 * 2 * 12);
  EXPECT_EQ(length.global_batch(31), 8);
  EXPECT_EQ(length.end_of_stretch(0), 8);
  EXPECT_EQ(length.end_of_stretch(7), 8);
  EXPECT_EQ(length.end_of_stretch(8), 12);
  EXPECT_EQ(length.end_of_stretch(22), 23);
}

TEST(RunLength, ABatchChangesWithinARunAlone) {
  const TrainConfig c = with_rampup(by_samples(12, 200));
  const RunLength whole(c);
  EXPECT_EQ(whole.change_after(0), nullptr);
  EXPECT_EQ(whole.change_after(7), nullptr);
  EXPECT_EQ(whole.change_after(8)->global_batch, 8);
  EXPECT_EQ(whole.change_after(12)->global_batch, 12);
  EXPECT_EQ(whole.change_after(23), nullptr);
  // What was saved before a change goes on with the next batch: there is nothing to save again.
  const RunLength resumed(c, {.iteration = 8, .consumed_train_samples = 32});
  EXPECT_EQ(resumed.change_after(8), nullptr);
  EXPECT_EQ(resumed.change_after(12)->global_batch, 12);
  EXPECT_EQ(resumed.last_iteration(), 23);
}

TEST(RunLength, ARampInIterations) {
  const RunLength length(with_rampup(by_iterations(12, 13)));
  EXPECT_EQ(length.last_iteration(), 13);
  EXPECT_EQ(length.needed().train, 64 + 12);
  EXPECT_EQ(length.requested().train, 13 * 12);  // as in Megatron
  EXPECT_EQ(RunLength(with_rampup(by_iterations(12, 5))).stretches().size(), 1U);
}

// GPT-3's: the iterations are Python's, of Megatron's loop.
TEST(RunLength, Gpt3sRamp) {
  TrainConfig c = by_samples(1536, 146484375);
  c.layout.rampup_batch_size = {"16", "16", "5859375"};
  const RunLength length(c);
  EXPECT_EQ(length.last_iteration(), 111354);
  EXPECT_EQ(length.left_over(), 1079);
  EXPECT_EQ(length.stretches().size(), 96U);
  EXPECT_EQ(length.stretches().back().begin, 19802);
  EXPECT_EQ(length.stretches().back().consumed_samples, 5859424);
}

// A run within the ramp ends where the next batch does not fit any more.
TEST(RunLength, ARampThatIsLongerThanTheRun) {
  TrainConfig c = by_samples(16, 100);
  c.layout.rampup_batch_size = {"4", "4", "120"};
  const RunLength length(c);
  EXPECT_EQ(length.stretches().size(), 3U);
  EXPECT_EQ(length.needed().train, 92);
  EXPECT_EQ(length.left_over(), 8);
}

// A smaller batch later: the order is made for as many samples as the largest would read.
TEST(RunLength, BatchesMayFall) {
  TrainConfig c = by_iterations(0, 10);
  c.data.seq_length = 2;
  c.layout.global_batch_size = 4;
  c.layout.step_batch_size_schedule = {"0:8 64:4"};
  const RunLength length(c);
  ASSERT_EQ(length.stretches().size(), 2U);
  EXPECT_EQ(length.stretches()[1].begin, 4);
  EXPECT_EQ(length.needed().train, 4 * 8 + 6 * 4);
  EXPECT_EQ(length.requested().train, 80);
  EXPECT_EQ(length.evaluation_batch(), 4);
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
