#include "phalanx/rank/step_programs.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "phalanx/base/test_support.h"
#include "phalanx/flag_table/test_support.h"
#include "phalanx/rules/resolve.h"

namespace phalanx {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// The pipeline is drained for no other reason than its schedule.
TrainConfig config(const std::string& schedule, int stages = 4) {
  return with_flags(
      {}, fmt::format("--num-layers 16 --hidden-size 32 --num-attention-heads 4 --seq-length 16 "
                      "--max-position-embeddings 16 --micro-batch-size 1 --global-batch-size 8 "
                      "--train-iters 20 --lr 1e-3 --clip-grad 0 --data-path data "
                      "--untie-embeddings-and-output-weights --eval-interval 0 --exit-interval 0 "
                      "--save-interval 0 --pipeline-schedule {0} --world-size {1} "
                      "--pipeline-model-parallel-size {1}",
                      schedule, stages));
}

TrainConfig resolved(TrainConfig c, const std::string& flags = "") {
  set_flags(c, flags);
  resolve(c, true);
  return c;
}

std::string refusal(const TrainConfig& c, const std::string& flags = "") {
  return error_of<ConfigError>([&] { step_programs(resolved(c, flags)); });
}

// The sizes of the programs from an iteration on.
std::vector<int> lengths(const TrainConfig& c, std::int64_t iteration = 0) {
  std::vector<int> found;
  const RunLength length(c);
  while (iteration < length.last_iteration()) {
    found.push_back(iterations_until_drained(c, length, iteration));
    iteration += found.back();
  }
  return found;
}

TEST(StepPrograms, AFlushAfterEveryIteration) {
  const TrainConfig c = resolved(config("1f1b"));
  EXPECT_EQ(lengths(c), std::vector<int>(20, 1));
  EXPECT_EQ(step_programs(c).training.size(), 1U);
}

TEST(StepPrograms, AsynchronousRunsDrainWhereTheyMust) {
  const auto drained = [](const std::string& flags) {
    return lengths(resolved(config("pipedream"), "--pipeline-drain-interval 8 " + flags));
  };
  using V = std::vector<int>;
  EXPECT_EQ(drained(""), (V{8, 8, 4}));
  EXPECT_EQ(drained("--pipeline-drain-interval 100"), (V{20}));
  EXPECT_EQ(drained("--pipeline-drain-interval 1"), V(20, 1));
  EXPECT_EQ(drained("--eval-interval 6"), (V{6, 2, 4, 4, 2, 2}));
  EXPECT_EQ(drained("--exit-interval 5"), (V{5, 3, 2, 5, 1, 4}));
  EXPECT_EQ(drained("--save save --save-interval 10"), (V{8, 2, 6, 4}));
  EXPECT_EQ(drained("--save save --save-interval 10 --save-copy copy --save-copy-interval 4"),
            (V{4, 4, 2, 2, 4, 4}));
  EXPECT_EQ(drained("--save save --save-interval 10 --non-persistent-save-interval 5 "
                    "--non-persistent-ckpt-type global"),
            (V{5, 3, 2, 5, 1, 4}));
  // No evaluation, no --save.
  EXPECT_EQ(drained("--eval-interval 6 --eval-iters 0 --save-interval 10"), (V{8, 8, 4}));
}

// Drains are at multiples of the intervals, so a run that resumes at one goes on as it would have.
TEST(StepPrograms, AResumedRunDrainsAtTheSameIterations) {
  TrainConfig c = resolved(config("pipedream"), "--pipeline-drain-interval 6 --eval-interval 4");
  EXPECT_EQ(lengths(c), (std::vector<int>{4, 2, 2, 4, 4, 2, 2}));
  EXPECT_EQ(lengths(c, 6), (std::vector<int>{2, 4, 4, 2, 2}));
  EXPECT_EQ(iterations_until_drained(c, RunLength(c), 5), 1);
}

TEST(StepPrograms, OneProgramForEachLength) {
  TrainConfig c = resolved(config("pipedream-2bw"), "--pipeline-drain-interval 8");
  const auto lengths_from = [&](std::int64_t iteration) {
    std::vector<int> found;
    for (const auto& [size, programs] :
         step_programs(c, RunLength(c, {.iteration = iteration})).training) {
      found.push_back(size.iterations);
      EXPECT_EQ(size.microbatches, 8);
      EXPECT_EQ(programs.schedule.microbatches, 8 * size.iterations);
      EXPECT_EQ(programs.schedule.microbatches_per_update, 8);
      EXPECT_EQ(programs.ranks.size(), 4U);
    }
    return found;
  };
  EXPECT_EQ(lengths_from(0), (std::vector<int>{4, 8}));
  EXPECT_EQ(lengths_from(16), (std::vector<int>{4}));
  EXPECT_EQ(lengths_from(20), (std::vector<int>{1}));  // the run is over
  EXPECT_EQ(lengths_from(3), (std::vector<int>{4, 5, 8}));
  c.layout.pipeline_schedule = "pipedream";
  EXPECT_EQ(step_programs(c).training.at({8, 8}).schedule.microbatches_per_update, 1);
}

// An iteration has 4 to 8 microbatches: two more after every 12 samples.
TrainConfig with_rampup(const std::string& schedule, std::int64_t iterations) {
  return resolved(config(schedule),
                  fmt::format("--rampup-batch-size 4 2 24 --train-iters {}", iterations));
}

TEST(StepPrograms, OneProgramForEachBatchThatTheRunReaches) {
  const auto sizes = [](const TrainConfig& c, const RunPosition& begin = {}) {
    std::vector<std::pair<int, int>> found;
    for (const auto& [size, programs] : step_programs(c, RunLength(c, begin)).training) {
      found.emplace_back(size.iterations, size.microbatches);
      EXPECT_EQ(programs.schedule.microbatches, size.iterations * size.microbatches);
    }
    return found;
  };
  using V = std::vector<std::pair<int, int>>;
  const TrainConfig c = with_rampup("1f1b", 20);
  EXPECT_EQ(sizes(c), (V{{1, 4}, {1, 6}, {1, 8}}));
  EXPECT_EQ(sizes(with_rampup("1f1b", 4)), (V{{1, 4}, {1, 6}}));
  EXPECT_EQ(sizes(c, {.iteration = 5, .consumed_train_samples = 24}), (V{{1, 8}}));
  EXPECT_EQ(sizes(with_rampup("1f1b", 20), {.iteration = 20, .consumed_train_samples = 13}),
            (V{{1, 6}}));  // the run is over
  // A plan without the length of the run covers all batches.
  TrainConfig plan = with_flags(c, "--train-iters 0");
  EXPECT_EQ(sizes(plan), (V{{1, 4}, {1, 6}, {1, 8}}));

  const StepPrograms programs = step_programs(c);
  EXPECT_EQ(programs.usual, (ProgramSize{1, 8}));
  EXPECT_EQ(programs.evaluation.schedule.microbatches, 8);
  EXPECT_EQ(step_programs(with_rampup("1f1b", 4)).usual, (ProgramSize{1, 6}));
  EXPECT_EQ(step_programs(with_rampup("1f1b", 4)).evaluation.schedule.microbatches, 8);
}

// Stale weights do not outlive a batch: updates of other sizes would read them.
TEST(StepPrograms, AnotherBatchDrains) {
  TrainConfig c = with_flags(with_rampup("pipedream-2bw", 20), "--pipeline-drain-interval 8");
  // Iterations 1 to 3 are of 4 samples, 4 and 5 of 6.
  EXPECT_EQ(lengths(c), (std::vector<int>{3, 2, 3, 8, 4}));
  for (const auto& [size, programs] : step_programs(c).training) {
    EXPECT_EQ(programs.schedule.microbatches_per_update, size.microbatches);
  }
  EXPECT_EQ(step_programs(c).usual, (ProgramSize{3, 8}));
}

// The batch that a schedule cannot run with is named.
TEST(StepPrograms, ABatchThatIsTooSmallForTheScheduleIsNamed) {
  EXPECT_THAT(refusal(config("pipedream-2bw"), "--rampup-batch-size 2 2 24"),
              HasSubstr("a global batch of 2 samples, which the run comes to: "));
}

TEST(StepPrograms, TooManyBatchesAreRefused) {
  EXPECT_THAT(refusal(config("1f1b"),
                      "--rampup-batch-size 1 1 100000000 --global-batch-size 8000 "
                      "--train-iters 0 --train-samples 200000000"),
              HasSubstr("Let the batch change in fewer steps"));
}

// Evaluation has the same placement.
TEST(StepPrograms, EvaluationHasForwardPassesAlone) {
  TrainConfig c = with_flags(config("interleaved"), "--num-virtual-stages-per-pipeline-rank 4");
  const StepPrograms programs = step_programs(resolved(c));
  EXPECT_EQ(programs.placement(), Placement::looped(4, 4));
  EXPECT_EQ(programs.training.at({1, 8}).schedule.placement, programs.placement());
  for (const Program& program : programs.evaluation.ranks) {
    EXPECT_TRUE(program.forward_only);
    EXPECT_EQ(program.microbatches, 8);
    const auto passes = std::ranges::count_if(
        program.actions, [](const Action& action) { return is_pass(action.kind); });
    EXPECT_EQ(passes, 4 * 8);
  }
}

TEST(StepPrograms, WhatCannotBeTrainedWithSaysWhy) {
  for (const ScheduleKind& kind : schedule_kinds()) {
    const std::string schedule(kind.name);
    const std::string text = refusal(config(schedule));
    if (kind.directions() == 1) {
      EXPECT_EQ(text, "no error") << schedule;
      continue;
    }
    EXPECT_THAT(text, AllOf(HasSubstr("--pipeline-schedule " + schedule),
                            HasSubstr("it has two copies of the model")));
  }
}

// Ranks that would wait for each other are found before anything runs.
TEST(StepPrograms, AGroupSizeThatDeadlocksIsRefused) {
  const TrainConfig c =
      with_flags(config("interleaved", 3),
                 "--num-layers 6 --global-batch-size 3 --num-virtual-stages-per-pipeline-rank 2");
  EXPECT_EQ(refusal(c), "no error");
  EXPECT_THAT(
      refusal(c, "--microbatch-group-size-per-virtual-pipeline-stage 1"),
      AllOf(HasSubstr("schedule interleaved"), HasSubstr("is stuck at"), HasSubstr("waits for")));
}

// Updates of fewer microbatches than the pipeline holds need versions that are not there yet, or
// more than two.
TEST(StepPrograms, DoubleBufferingNeedsLargeBatches) {
  const TrainConfig c = config("pipedream-2bw");
  EXPECT_THAT(refusal(c, "--global-batch-size 2"),
              HasSubstr("reads weight version 1 after 0 updates"));
  EXPECT_THAT(refusal(c, "--global-batch-size 3"), HasSubstr("3 per update"));
  EXPECT_EQ(refusal(c, "--global-batch-size 4"), "no error");
}

}  // namespace
}  // namespace phalanx
