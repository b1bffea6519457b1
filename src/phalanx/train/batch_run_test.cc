// Runs whose global batch changes have the same bits as runs that are resumed at each change with
// the next batch as --global-batch-size.

#include <gmock/gmock.h>

#include <algorithm>
#include <string>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/rank/step_programs.h"
#include "phalanx/rules/resolve.h"
#include "phalanx/saving/run_checkpoint.h"
#include "phalanx/settings/schedule_flags.h"
#include "phalanx/train/test_support.h"

namespace phalanx {
namespace {

using testing::HasSubstr;

class BatchRunTest : public RunTest {
 protected:
  // Batches of 4, 8 and 12 samples: 3, 2 and 2 iterations, 52 of 60 samples. With dropout.
  TrainConfig config(const std::string& save, const Layout& layout = {}) const {
    TrainConfig c = with_flags(
        RunTest::config(save),
        "--micro-batch-size 1 --global-batch-size 12 --rampup-batch-size 4 4 24 --train-iters 0 "
        "--train-samples 60 --eval-iters 0 --lr-warmup-iters 0 --lr-warmup-samples 8");
    if (layout.pipeline > 1) c.model.num_layers = 4;
    return with_layout(std::move(c), layout);
  }
  static TrainConfig asynchronous(TrainConfig c) {
    set_flags(c, "--untie-embeddings-and-output-weights --clip-grad 0 --pipeline-drain-interval 2");
    return c;
  }

  static RunLength length_of(TrainConfig c) {
    resolve(c, true);
    return RunLength(c);
  }

  // One run for each batch, which is --global-batch-size.
  static void train_by_hand(const TrainConfig& ramp, const std::string& save) {
    TrainConfig c = ramp;
    c.run.save = save;
    c.run.load = save;
    c.layout.rampup_batch_size.clear();
    const RunLength length = length_of(ramp);
    for (const RunLength::Stretch& stretch : length.stretches()) {
      c.layout.global_batch_size = stretch.global_batch;
      c.run.exit_interval = stretch.end() == length.last_iteration() ? 0 : stretch.end();
      train(c);
    }
  }

  void expect_same_run(const std::string& found, const std::string& expected) const {
    for (const char* key : {"iteration", "consumed_samples", "lm_loss", "learning_rate",
                            "grad_norm", "loss_scale", "skipped"}) {
      EXPECT_EQ(metric(found, key), metric(expected, key)) << key;
    }
    const auto differences = difference(expected, found);
    EXPECT_TRUE(differences.tensors_equal()) << to_text(differences);
    const Manifest a = CheckpointReader::open(path(expected)).manifest();
    const Manifest b = CheckpointReader::open(path(found)).manifest();
    EXPECT_EQ(a.iteration, b.iteration);
    EXPECT_EQ(a.consumed_train_samples, b.consumed_train_samples);
    EXPECT_EQ(a.optimizer.adam_step, b.optimizer.adam_step);
    EXPECT_EQ(a.optimizer.schedule_steps, b.optimizer.schedule_steps);
    EXPECT_EQ(a.tensors, b.tensors);  // with their digests
  }

  static std::string said_by(const TrainConfig& c) {
    testing::internal::CaptureStderr();
    train(c);
    return testing::internal::GetCapturedStderr();
  }
  static std::size_t times(const std::string& text, const std::string& part) {
    std::size_t count = 0;
    for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++count;
    return count;
  }
};

TEST_F(BatchRunTest, ARampIsItsStepsByHand) {
  for (const Layout& layout :
       {Layout{}, Layout{.name = "d2", .data = 2, .sharded = true, .overlaps = true},
        Layout{.name = "p2", .pipeline = 2},
        Layout{.name = "p2-d2", .data = 2, .sharded = true, .pipeline = 2, .chunks = 2},
        Layout{.name = "zb-v", .pipeline = 2, .schedule = "zb-v"}}) {
    SCOPED_TRACE(layout.name);
    const std::string ramp = std::string(layout.name) + "-ramp";
    const std::string hand = std::string(layout.name) + "-hand";
    const TrainConfig c = config(ramp, layout);
    train(c);
    EXPECT_EQ(metric(ramp, "consumed_samples"), (std::vector<Json>{4, 8, 12, 20, 28, 40, 52}));
    train_by_hand(c, path(hand));
    expect_same_run(ramp, hand);
  }
}

// The pipeline is empty when the batch changes; Adam counts the updates of each batch.
TEST_F(BatchRunTest, AnAsynchronousRampIsItsStepsByHand) {
  for (const Layout& layout :
       {Layout{.name = "pipedream", .pipeline = 2, .schedule = "pipedream"},
        Layout{.name = "2bw", .data = 2, .pipeline = 2, .schedule = "pipedream-2bw"}}) {
    SCOPED_TRACE(layout.name);
    const std::string ramp = std::string(layout.name) + "-ramp";
    const std::string hand = std::string(layout.name) + "-hand";
    const TrainConfig c = asynchronous(config(ramp, layout));
    train(c);
    train_by_hand(c, path(hand));
    expect_same_run(ramp, hand);
    const Manifest manifest = CheckpointReader::open(path(ramp)).manifest();
    EXPECT_EQ(manifest.optimizer.adam_step, layout.data == 1 ? 52 : 7);
  }
}

TEST_F(BatchRunTest, ARampResumesAnywhere) {
  expect_resume_is_bitwise(config("straight"), 4);
  // And with another layout where the batch changes.
  TrainConfig c = config("parts");
  c.run.load = path("straight");
  c.run.ckpt_step = 3;
  c.run.save = path("other");
  train(with_layout(c, {.tensor = 1, .data = 1, .pipeline = 2}));
  const auto found = difference("straight", "other");
  EXPECT_TRUE(found.tensors_equal()) << to_text(found);
}

TEST_F(BatchRunTest, WhatWasTrainedWithAnotherBatchIsSavedFirst) {
  TrainConfig c = with_flags(config("run"), "--save-interval 3");
  const std::string said = said_by(c);
  EXPECT_THAT(said, HasSubstr("setting training iterations to 7\n"));
  EXPECT_THAT(said, HasSubstr("global batch size is 8 from iteration 4 on (12 samples consumed)"));
  EXPECT_THAT(said, HasSubstr("global batch size is 12 from iteration 6 on (28 samples consumed)"));
  EXPECT_THAT(said, HasSubstr("8 of 60 samples are left over"));
  // After iterations 3 (once, where the interval saves too), 5, 6 and at the end.
  EXPECT_EQ(times(said, "saving checkpoint at iteration"), 4U);
  for (const int iteration : {3, 5, 6, 7}) {
    EXPECT_EQ(times(said, fmt::format("saving checkpoint at iteration {:7d}", iteration)), 1U);
  }
  // A run that resumes where the batch changes has nothing to save there.
  c.run.load = c.run.save;
  c.run.ckpt_step = 5;
  const std::string resumed = said_by(c);
  EXPECT_EQ(times(resumed, "global batch size is"), 0U);
  EXPECT_EQ(times(resumed, "saving checkpoint at iteration"), 2U);
}

// 200 samples end at 196.
TEST_F(BatchRunTest, OnlyWholeBatchesAreTrained) {
  TrainConfig c =
      with_flags(config("run"), "--num-layers 1 --rampup-batch-size 4 4 60 --train-samples 200");
  EXPECT_THAT(said_by(c), HasSubstr("setting training iterations to 23\n"));
  EXPECT_EQ(CheckpointReader::open(path("run")).manifest().consumed_train_samples, 196);
}

// The same batches, given in iterations and as a table of tokens.
TEST_F(BatchRunTest, TheBatchesDecideHoweverTheyAreSaid) {
  train(config("ramp"));
  TrainConfig steps = with_flags(config("steps"), "--rampup-batch-size --global-batch-size 0");
  steps.layout.step_batch_size_schedule = {"0:4 288:8", "576:12"};
  train(steps);
  expect_same_run("steps", "ramp");

  TrainConfig iterations =
      with_flags(config("iterations"), "--train-samples 0 --train-iters 6 --lr-warmup-samples 0");
  train(iterations);
  EXPECT_EQ(metric("iterations", "consumed_samples"), (std::vector<Json>{4, 8, 12, 20, 28, 40}));
  resolve(iterations, true);
  EXPECT_EQ(parameter_schedule(iterations).decay_samples, 40);
}

// Also where a run is stopped, resumed and asked for its schedules anew.
TEST_F(BatchRunTest, SchedulesInIterationsEndWithTheirIterations) {
  const TrainConfig c = with_flags(
      config("run"),
      "--train-samples 0 --train-iters 7 --lr-warmup-samples 0 --lr-warmup-iters 2 --lr 1e-3 "
      "--min-lr 0 --lr-decay-style WSD --lr-wsd-decay-style linear --lr-wsd-decay-iters 2");
  expect_resume_is_bitwise(c, 4);
  const std::vector<double> rates = numbers("run", "learning_rate");
  ASSERT_EQ(rates.size(), 7U);
  EXPECT_DOUBLE_EQ(rates[0], 5e-4);
  for (const int i : {1, 2, 3, 4}) EXPECT_DOUBLE_EQ(rates[static_cast<std::size_t>(i)], 1e-3);
  EXPECT_DOUBLE_EQ(rates[5], 5e-4);
  EXPECT_DOUBLE_EQ(rates[6], 0.0);

  // Without the optimizer's state they begin anew, with the batches of now: 12 and 12.
  TrainConfig anew = with_flags(c,
                                "--no-load-optim --ckpt-step 5 --lr-decay-style constant "
                                "--lr-wsd-decay-style exponential --lr-wsd-decay-iters 0");
  anew.run.load = path("run");
  anew.run.save = path("anew");
  train(anew);
  const std::vector<double> again = numbers("anew", "learning_rate");
  ASSERT_EQ(again.size(), 2U);
  EXPECT_DOUBLE_EQ(again[0], 5e-4);
  EXPECT_DOUBLE_EQ(again[1], 1e-3);
}

TEST_F(BatchRunTest, EvaluationsHaveTheLastBatch) {
  train(with_flags(config("run"), "--eval-iters 2 --eval-interval 2"));
  const Manifest manifest = CheckpointReader::open(path("run")).manifest();
  // After iterations 2, 4 and 6; the last checkpoint is written before the last evaluation.
  EXPECT_EQ(manifest.consumed_valid_samples, 3 * 2 * 12);
  EXPECT_EQ(manifest.requested_samples.valid, (7 / 2 + 1) * 2 * 12);
}

// A difference on resume is logged; the number of consumed samples decides.
TEST_F(BatchRunTest, OtherBatchesOnResumeAreSaid) {
  TrainConfig c = config("run");
  c.run.load = c.run.save;
  c.run.exit_interval = 3;
  train(c);
  set_flags(c, "--exit-interval 0 --rampup-batch-size 2 2 10");
  const std::string said = said_by(c);
  EXPECT_THAT(said, HasSubstr("--rampup-batch-size is 2 2 10, the checkpoint of iteration 3 was "
                              "made with 4 4 24"));
  EXPECT_EQ(metric("run", "consumed_samples"), (std::vector<Json>{4, 8, 12, 24, 36, 48, 60}));
}

TEST_F(BatchRunTest, BatchesAreRoundedDownToTheRanks) {
  train(with_flags(config("rounded"), "--micro-batch-size 3 --decrease-batch-size-if-needed"));
  // 4, 8 and 12 samples in microbatches of 3.
  EXPECT_EQ(metric("rounded", "consumed_samples"),
            (std::vector<Json>{3, 6, 9, 12, 18, 24, 36, 48, 60}));
}

// On the first of four stages all microbatches are in flight, but at most four.
TEST_F(BatchRunTest, ThePlanIsTheMostOfAllPrograms) {
  const auto planned = [&](const auto& change) {
    TrainConfig c = config("", {.pipeline = 4});
    change(c);
    resolve(c, true);
    return plan_memory(c, *make_model(c, 49), step_programs(c), 0, {cpu::ProductPrecision::kFp32});
  };
  const MemoryPlan whole = planned([](TrainConfig& c) { c.layout.rampup_batch_size.clear(); });
  ASSERT_EQ(whole.programs.size(), 2U);
  const MemoryPlan ramp = planned([](TrainConfig& c) {
    c.layout.rampup_batch_size = {"2", "2", "24"};
  });
  ASSERT_EQ(ramp.programs.size(), 6U);  // of 2, 4, 6, 8 and 12: none begins with 10
  EXPECT_EQ(ramp.bytes.total(), whole.bytes.total());
  EXPECT_EQ(ramp.bytes["saved"], whole.bytes["saved"]);
  EXPECT_EQ(ramp.programs[ramp.largest].size, (ProgramSize{1, 12}));
  EXPECT_EQ(ramp.programs.back().size, (ProgramSize{0, 12}));  // the evaluation
  EXPECT_EQ(ramp.messages, whole.messages);
  EXPECT_EQ(ramp.flops_per_step, whole.flops_per_step);
  EXPECT_LT(ramp.programs.front().bytes.total(), ramp.programs[1].bytes.total());
  EXPECT_EQ(ramp.programs[1].bytes.total(), ramp.bytes.total());
  // The largest need not be the last.
  const MemoryPlan falling = planned([](TrainConfig& c) {
    set_flags(c, "--rampup-batch-size --global-batch-size 0");
    c.layout.step_batch_size_schedule = {"0:12 288:2"};
  });
  EXPECT_EQ(falling.programs[falling.largest].size, (ProgramSize{1, 12}));
  EXPECT_EQ(falling.bytes["saved"], whole.bytes["saved"]);
  EXPECT_LT(falling.flops_per_step, whole.flops_per_step);  // of the last batch
}

// A run compares what it uses with its plan after every program: it passes with batches that rise,
// and with batches that fall.
TEST_F(BatchRunTest, ArenasReachThePlan) {
  TrainConfig c =
      with_flags(config("rising", {.pipeline = 4}),
                 "--rampup-batch-size 2 2 24 --train-samples 40 --eval-iters 1 --eval-interval 3");
  train(c);
  c.run.save = path("falling");
  set_flags(c, "--rampup-batch-size --global-batch-size 0");
  c.layout.step_batch_size_schedule = {"0:12 576:2"};
  train(c);
}

TEST(HighWaterCheck, ComparesWithWhatHasRun) {
  const auto allocate = [](RankArenas& arenas, std::int64_t bytes) {
    arenas["saved"].place(0, DType::kU8, {bytes});
  };
  const auto marks = [](std::int64_t saved) {
    MemoryBytes bytes;
    bytes["saved"] = saved;
    return bytes;
  };
  MemoryPlan plan;
  plan.made = marks(0);
  plan.programs = {{{1, 2}, marks(256)}, {{1, 4}, marks(512)}, {{0, 4}, marks(256)}};
  RankArenas arenas = RankArenas::planning();
  HighWaterCheck check(plan, arenas);
  EXPECT_THROW(check.after({1, 2}), InternalError);  // nothing was used
  allocate(arenas, 256);
  check.after({1, 2});
  check.after_evaluation();
  EXPECT_THROW(check.after({1, 3}), InternalError);  // not planned
  allocate(arenas, 512);
  EXPECT_THROW(check.after({1, 2}), InternalError);  // more than has run
  check.after({1, 4});
  check.after({1, 2});
}

}  // namespace
}  // namespace phalanx
