#include "phalanx/settings/schedule_flags.h"

#include <gtest/gtest.h>

namespace phalanx {
namespace {

TrainConfig with_batch(std::int64_t batch) {
  TrainConfig c;
  c.layout.global_batch_size = batch;
  c.run.train_iters = 12;
  c.optimizer.lr = 1e-3;
  c.optimizer.start_weight_decay = 0.01;
  c.optimizer.end_weight_decay = 0.1;
  c.optimizer.weight_decay_incr_style = "linear";
  return c;
}

// Batches of 2, 2, 2, 2, 4, 4, 6, 6, 8, ...: after 4 iterations 8 samples, after 12 60.
TrainConfig with_rampup() {
  TrainConfig c = with_batch(8);
  c.layout.rampup_batch_size = {"2", "2", "24"};
  return c;
}

TEST(ScheduleFlags, AConstantBatchIsAFactor) {
  TrainConfig c = with_batch(8);
  c.optimizer.lr_warmup_iters = 2;
  c.optimizer.lr_decay_iters = 10;
  c.optimizer.lr_decay_style = "WSD";
  c.optimizer.lr_wsd_decay_iters = 4;
  ParameterSchedule s = parameter_schedule(c);
  EXPECT_EQ(s.warmup_samples, 16);
  EXPECT_EQ(s.decay_samples, 80);
  EXPECT_EQ(s.stable_decay_samples, 32);
  EXPECT_EQ(s.weight_decay_samples, 96);
  c.optimizer.lr_warmup_iters = 0;
  c.optimizer.lr_warmup_fraction = 0.015;
  EXPECT_EQ(parameter_schedule(c).warmup_samples, 0.015 * 80);
  // More than there is stays more, and is refused by the rules.
  c.optimizer.lr_wsd_decay_iters = 11;
  EXPECT_EQ(parameter_schedule(c).stable_decay_samples, 88);
}

TEST(ScheduleFlags, IterationsOfARampAreTheOnesThatAreMeant) {
  TrainConfig c = with_rampup();
  c.optimizer.lr_warmup_iters = 2;
  c.optimizer.lr_decay_style = "WSD";
  c.optimizer.lr_wsd_decay_style = "linear";
  c.optimizer.lr_wsd_decay_iters = 4;
  ParameterSchedule s = parameter_schedule(c);
  EXPECT_EQ(s.warmup_samples, 4);
  EXPECT_EQ(s.learning_rate(4), 1e-3);
  EXPECT_EQ(s.decay_samples, 60);
  EXPECT_EQ(s.stable_decay_samples, 60 - 28);  // iterations 9 to 12
  EXPECT_EQ(s.learning_rate(60), 0.0);
  EXPECT_EQ(s.weight_decay_samples, 60);
  EXPECT_DOUBLE_EQ(s.weight_decay(60), 0.1);

  // Shorter than the run, in the ramp.
  c.optimizer.lr_decay_iters = 5;
  s = parameter_schedule(c);
  EXPECT_EQ(s.decay_samples, 12);
  EXPECT_EQ(s.stable_decay_samples, 12 - 2);
  EXPECT_EQ(s.weight_decay_samples, 60);
  c.optimizer.lr_wsd_decay_iters = 6;
  EXPECT_GT(parameter_schedule(c).stable_decay_samples, parameter_schedule(c).decay_samples);
}

TEST(ScheduleFlags, AShareOfTheDecayIsAShareOfItsIterations) {
  TrainConfig c = with_rampup();
  c.optimizer.lr_warmup_fraction = 0.5;
  EXPECT_EQ(parameter_schedule(c).warmup_samples, 16);  // 6 iterations
  c.optimizer.lr_warmup_fraction = 0.375;
  EXPECT_EQ(parameter_schedule(c).warmup_samples, 10);  // four and a half
  c.optimizer.lr_decay_iters = 8;
  EXPECT_EQ(parameter_schedule(c).warmup_samples, 6);  // three
}

TEST(ScheduleFlags, ATableOfBatchesAsARamp) {
  TrainConfig c = with_batch(2);
  c.data.seq_length = 2;
  c.layout.step_batch_size_schedule = {"0:8 64:2"};
  c.optimizer.lr_warmup_iters = 5;
  const ParameterSchedule s = parameter_schedule(c);
  EXPECT_EQ(s.warmup_samples, 34);
  EXPECT_EQ(s.decay_samples, 32 + 8 * 2);
}

TEST(ScheduleFlags, ALaterBeginHasLaterBatches) {
  TrainConfig c = with_rampup();
  c.optimizer.lr_warmup_iters = 2;
  EXPECT_EQ(parameter_schedule(c, 8).warmup_samples, 8);
  EXPECT_EQ(parameter_schedule(c, 1000).warmup_samples, 16);
}

TEST(ScheduleFlags, SamplesAreTakenAsTheyAre) {
  TrainConfig c = with_rampup();
  c.run.train_iters = 0;
  c.run.train_samples = 100;
  c.optimizer.lr_warmup_samples = 7;
  c.optimizer.lr_wsd_decay_samples = 11;
  ParameterSchedule s = parameter_schedule(c);
  EXPECT_EQ(s.warmup_samples, 7);
  EXPECT_EQ(s.decay_samples, 100);
  EXPECT_EQ(s.stable_decay_samples, 11);
  EXPECT_EQ(s.weight_decay_samples, 100);
  c.optimizer.lr_warmup_samples = 0;
  c.optimizer.lr_warmup_fraction = 0.015;
  EXPECT_EQ(parameter_schedule(c).warmup_samples, 1.5);
}

}  // namespace
}  // namespace phalanx
