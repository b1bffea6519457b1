#include "phalanx/rank/step_programs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/rules/resolve.h"

namespace phalanx {
namespace {

TrainConfig config(const std::string& schedule, int stages = 4) {
  TrainConfig c;
  c.layout.world_size = stages;
  c.layout.pipeline_model_parallel_size = stages;
  c.layout.pipeline_schedule = schedule;
  c.model.num_layers = 16;
  c.model.hidden_size = 32;
  c.model.num_attention_heads = 4;
  c.model.max_position_embeddings = 16;
  c.data.seq_length = 16;
  c.layout.micro_batch_size = 1;
  c.layout.global_batch_size = 8;
  c.run.train_iters = 20;
  c.optimizer.lr = 1e-3;
  c.optimizer.clip_grad = 0.0;
  c.model.untie_embeddings_and_output_weights = true;
  c.data.data_path = {"data"};
  // The pipeline is drained for no other reason.
  c.run.eval_interval = 0;
  c.run.exit_interval = 0;
  c.run.save_interval = 0;
  return c;
}

TrainConfig resolved(TrainConfig c) {
  resolve(c, true);
  return c;
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
  const auto drained = [](auto change) {
    TrainConfig c = config("pipedream");
    c.layout.pipeline_drain_interval = 8;
    change(c);
    return lengths(resolved(c));
  };
  using V = std::vector<int>;
  EXPECT_EQ(drained([](TrainConfig&) {}), (V{8, 8, 4}));
  EXPECT_EQ(drained([](TrainConfig& c) { c.layout.pipeline_drain_interval = 100; }), (V{20}));
  EXPECT_EQ(drained([](TrainConfig& c) { c.layout.pipeline_drain_interval = 1; }), V(20, 1));
  EXPECT_EQ(drained([](TrainConfig& c) { c.run.eval_interval = 6; }), (V{6, 2, 4, 4, 2, 2}));
  EXPECT_EQ(drained([](TrainConfig& c) { c.run.exit_interval = 5; }), (V{5, 3, 2, 5, 1, 4}));
  EXPECT_EQ(drained([](TrainConfig& c) {
              c.run.save = "save";
              c.run.save_interval = 10;
            }),
            (V{8, 2, 6, 4}));
  // No evaluation, no --save.
  EXPECT_EQ(drained([](TrainConfig& c) {
              c.run.eval_interval = 6;
              c.run.eval_iters = 0;
              c.run.save_interval = 10;
            }),
            (V{8, 8, 4}));
}

// Drains are at multiples of the intervals, so a run that resumes at one goes on as it would have.
TEST(StepPrograms, AResumedRunDrainsAtTheSameIterations) {
  TrainConfig c = config("pipedream");
  c.layout.pipeline_drain_interval = 6;
  c.run.eval_interval = 4;
  c = resolved(c);
  EXPECT_EQ(lengths(c), (std::vector<int>{4, 2, 2, 4, 4, 2, 2}));
  EXPECT_EQ(lengths(c, 6), (std::vector<int>{2, 4, 4, 2, 2}));
  EXPECT_EQ(iterations_until_drained(c, RunLength(c), 5), 1);
}

TEST(StepPrograms, OneProgramForEachLength) {
  TrainConfig c = config("pipedream-2bw");
  c.layout.pipeline_drain_interval = 8;
  c = resolved(c);
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
  TrainConfig c = config(schedule);
  c.layout.rampup_batch_size = {"4", "2", "24"};
  c.run.train_iters = iterations;
  return resolved(c);
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
  TrainConfig plan = c;
  plan.run.train_iters = 0;
  EXPECT_EQ(sizes(plan), (V{{1, 4}, {1, 6}, {1, 8}}));

  const StepPrograms programs = step_programs(c);
  EXPECT_EQ(programs.usual, (ProgramSize{1, 8}));
  EXPECT_EQ(programs.evaluation.schedule.microbatches, 8);
  EXPECT_EQ(step_programs(with_rampup("1f1b", 4)).usual, (ProgramSize{1, 6}));
  EXPECT_EQ(step_programs(with_rampup("1f1b", 4)).evaluation.schedule.microbatches, 8);
}

// Stale weights do not outlive a batch: updates of other sizes would read them.
TEST(StepPrograms, AnotherBatchDrains) {
  TrainConfig c = with_rampup("pipedream-2bw", 20);
  c.layout.pipeline_drain_interval = 8;
  // Iterations 1 to 3 are of 4 samples, 4 and 5 of 6.
  EXPECT_EQ(lengths(c), (std::vector<int>{3, 2, 3, 8, 4}));
  for (const auto& [size, programs] : step_programs(c).training) {
    EXPECT_EQ(programs.schedule.microbatches_per_update, size.microbatches);
  }
  EXPECT_EQ(step_programs(c).usual, (ProgramSize{3, 8}));
}

// The batch that a schedule cannot run with is named.
TEST(StepPrograms, ABatchThatIsTooSmallForTheScheduleIsNamed) {
  TrainConfig c = config("pipedream-2bw");
  c.layout.rampup_batch_size = {"2", "2", "24"};
  try {
    step_programs(resolved(c));
    FAIL() << "accepted";
  } catch (const ConfigError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("a global batch of 2 samples, which the run comes to: "), std::string::npos)
        << text;
  }
}

TEST(StepPrograms, TooManyBatchesAreRefused) {
  TrainConfig c = config("1f1b");
  c.layout.rampup_batch_size = {"1", "1", "100000000"};
  c.layout.global_batch_size = 8000;
  c.run.train_iters = 0;
  c.run.train_samples = 200'000'000;
  try {
    step_programs(resolved(c));
    FAIL() << "accepted";
  } catch (const ConfigError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("Let the batch change in fewer steps"), std::string::npos) << text;
  }
}

// Evaluation has the same placement.
TEST(StepPrograms, EvaluationHasForwardPassesAlone) {
  TrainConfig c = config("interleaved");
  c.layout.num_virtual_stages_per_pipeline_rank = 4;
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

std::string refusal(const TrainConfig& c) {
  try {
    step_programs(resolved(c));
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(StepPrograms, WhatCannotBeTrainedWithSaysWhy) {
  for (const std::string schedule : {"chimera", "dualpipe"}) {
    const std::string text = refusal(config(schedule));
    EXPECT_NE(text.find("--pipeline-schedule " + schedule), std::string::npos) << text;
    EXPECT_NE(text.find("it has two copies of the model"), std::string::npos) << text;
  }
  for (const char* schedule :
       {"naive", "gpipe", "eager-1f1b", "zb-h1", "zb-h2", "zb-v", "zb-interleaved", "looped-bfs",
        "hanayo", "dualpipe-v", "backward-first", "pipedream", "pipedream-2bw"}) {
    EXPECT_EQ(refusal(config(schedule)), "accepted") << schedule;
  }
}

// Ranks that would wait for each other are found before anything runs.
TEST(StepPrograms, AGroupSizeThatDeadlocksIsRefused) {
  TrainConfig c = config("interleaved", 3);
  c.model.num_layers = 6;
  c.layout.global_batch_size = 3;
  c.layout.num_virtual_stages_per_pipeline_rank = 2;
  EXPECT_EQ(refusal(c), "accepted");
  c.layout.microbatch_group_size_per_virtual_pipeline_stage = 1;
  const std::string text = refusal(c);
  EXPECT_NE(text.find("schedule interleaved"), std::string::npos) << text;
  EXPECT_NE(text.find("is stuck at"), std::string::npos) << text;
  EXPECT_NE(text.find("waits for"), std::string::npos) << text;
}

// Updates of fewer microbatches than the pipeline holds need versions that are not there yet, or
// more than two.
TEST(StepPrograms, DoubleBufferingNeedsLargeBatches) {
  TrainConfig c = config("pipedream-2bw");
  c.layout.global_batch_size = 2;
  EXPECT_NE(refusal(c).find("reads weight version 1 after 0 updates"), std::string::npos);
  c.layout.global_batch_size = 3;
  EXPECT_NE(refusal(c).find("3 per update"), std::string::npos) << refusal(c);
  c.layout.global_batch_size = 4;
  EXPECT_EQ(refusal(c), "accepted");
}

}  // namespace
}  // namespace phalanx
