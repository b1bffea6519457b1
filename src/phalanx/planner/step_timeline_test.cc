#include "phalanx/planner/step_timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "phalanx/base/error.h"
#include "phalanx/planner/test_support.h"

namespace phalanx {
namespace {

using nn::PassKind;
using testing::HasSubstr;
using Move = StepTimeline::Move;

constexpr int kUnits = 6;  // embedding, 4 layers, head
constexpr int kMicrobatches = 3;

TrainConfig shared_config(std::int64_t stage, std::int64_t world = 4) {
  TrainConfig c = planned_config(world);
  c.layout.global_batch_size = kMicrobatches * world * c.layout.micro_batch_size;
  c.layout.zero_stage = stage;
  if (stage == 3) c.layout.zero_persistence_threshold = 100;
  return c;
}

bool is_layer(const StepTimeline& timeline, int row) {
  return timeline.rows[static_cast<std::size_t>(row)].name.starts_with("layer");
}

std::int64_t count(const StepTimeline& timeline, StateMove move) {
  return std::ranges::count(timeline.moves, move, &Move::move);
}

std::int64_t messages(const RunPlan& plan, const std::string& op) {
  const auto& totals = plan.groups.front().memory.messages.by_key();
  const auto found = totals.find({"dp", op});
  return found == totals.end() ? 0 : found->second.count;
}

TEST(StepTimeline, PassesFollowEachOther) {
  const StepTimeline timeline = step_timeline(planned(shared_config(3)));
  ASSERT_EQ(timeline.passes.size(), 2U * kUnits * kMicrobatches);
  std::vector<int> units;
  for (int row = 0; row < std::ssize(timeline.rows); ++row) {
    if (timeline.rows[static_cast<std::size_t>(row)].is_unit) units.push_back(row);
  }
  ASSERT_EQ(units.size(), kUnits);
  double now = 0.0;
  for (std::size_t i = 0; i < timeline.passes.size(); ++i) {
    const StepTimeline::Pass& pass = timeline.passes[i];
    const std::size_t of_microbatch = i % (2 * kUnits);
    const bool forward = of_microbatch < kUnits;
    EXPECT_EQ(pass.microbatch, static_cast<int>(i / (2 * kUnits)));
    EXPECT_EQ(pass.kind, forward ? PassKind::kForward : PassKind::kBackwardInput);
    EXPECT_EQ(pass.row, units[forward ? of_microbatch : 2 * kUnits - 1 - of_microbatch]);
    EXPECT_GE(pass.begin, now);
    EXPECT_EQ(pass.end, pass.begin + 1.0);
    now = pass.end;
  }
  EXPECT_GE(timeline.update_begin, now);
  EXPECT_EQ(timeline.update_end, timeline.update_begin + 1.0);
  EXPECT_GE(timeline.length, timeline.update_end);
}

// The weights of a pass are whole while it runs, and at most the depth and one layers are whole.
TEST(StepTimeline, WholeWeightsAreThereForTheirPassesAlone) {
  for (const std::int64_t depth : {0, 1, 2}) {
    TrainConfig c = shared_config(3);
    c.layout.zero_prefetch_depth = depth;
    const StepTimeline timeline = step_timeline(planned(c));
    std::int64_t most = 0;
    for (const StepTimeline::Pass& pass : timeline.passes) {
      if (!is_layer(timeline, pass.row)) continue;
      std::int64_t whole = 0;
      bool is_there = false;
      for (const Move& move : timeline.moves) {
        if (move.move != StateMove::kWeights || !is_layer(timeline, move.row)) continue;
        if (move.begin < pass.end && move.end > pass.begin) ++whole;
        is_there =
            is_there || (move.row == pass.row && move.done <= pass.begin && move.end >= pass.end);
      }
      EXPECT_TRUE(is_there) << depth << ": "
                            << timeline.rows[static_cast<std::size_t>(pass.row)].name;
      most = std::max(most, whole);
    }
    EXPECT_EQ(most, depth + 1);
    // Without a depth the rank waits for every gather at once.
    const auto exposed = std::ranges::count_if(timeline.moves, [&](const Move& move) {
      return move.move == StateMove::kWeights && move.done == move.begin + 0.5;
    });
    EXPECT_EQ(exposed == count(timeline, StateMove::kWeights), depth == 0);
  }
}

// The timeline has the moves that the plan counts.
TEST(StepTimeline, EveryMessageOfThePlanIsThere) {
  for (const std::int64_t stage : {1, 2, 3}) {
    for (const bool overlap : {false, true}) {
      TrainConfig c = shared_config(stage);
      c.layout.overlap_grad_reduce = overlap;
      const RunPlan plan = planned(c);
      const StepTimeline timeline = step_timeline(plan);
      EXPECT_EQ(count(timeline, StateMove::kGradientSum), messages(plan, "reduce_scatter"))
          << stage;
      EXPECT_EQ(count(timeline, StateMove::kWeights) + count(timeline, StateMove::kNewParameters),
                messages(plan, "all_gather"))
          << stage;
      EXPECT_EQ(count(timeline, StateMove::kWeights) > 0, stage == 3);
      EXPECT_GT(count(timeline, StateMove::kGradientSum), 0);
      for (const Move& move : timeline.moves) {
        EXPECT_LE(move.begin, move.done);
        EXPECT_LE(move.done, move.end);
        EXPECT_LE(move.end, timeline.length);
        EXPECT_GT(move.bytes, 0);
      }
    }
  }
}

TEST(StepTimeline, SumsOfWholeGradientsBeginWithTheLastMicrobatch) {
  TrainConfig c = with_flags(
      shared_config(1), "--overlap-grad-reduce --overlap-param-gather --ddp-bucket-size 40000");
  const StepTimeline timeline = step_timeline(planned(c));
  const auto last =
      std::ranges::find(timeline.passes, kMicrobatches - 1, &StepTimeline::Pass::microbatch);
  bool begins_early = false;
  for (const Move& move : timeline.moves) {
    EXPECT_THAT(timeline.rows[static_cast<std::size_t>(move.row)].name, HasSubstr("bucket "));
    if (move.move == StateMove::kGradientSum) {
      EXPECT_GT(move.begin, last->begin);
      EXPECT_LE(move.done, timeline.update_begin);
      begins_early = begins_early || move.begin < timeline.passes.back().begin;
      EXPECT_FALSE(move.goes_on);
    } else {
      EXPECT_EQ(move.move, StateMove::kNewParameters);
      EXPECT_GE(move.begin, timeline.update_end);
      EXPECT_TRUE(move.goes_on);
    }
  }
  EXPECT_TRUE(begins_early);
}

TEST(StepTimeline, CopiesOfTheStatesAreSummedBeforeTheUpdate) {
  TrainConfig c = with_flags(shared_config(2, 4), "--num-distributed-optimizer-instances 2");
  const StepTimeline timeline = step_timeline(planned(c));
  EXPECT_GT(count(timeline, StateMove::kReplicaSum), 0);
  for (const Move& move : timeline.moves) {
    if (move.move != StateMove::kReplicaSum) continue;
    EXPECT_GE(move.begin, timeline.passes.back().end);
    EXPECT_LE(move.done, timeline.update_begin);
  }
}

// Transfers have the plan's counts and bytes, by file and op; the plan counts them in another way.
TEST(StepTimeline, EveryTransferOfThePlanIsThere) {
  for (const std::int64_t world : {1, 4}) {
    TrainConfig c = with_flags(shared_config(3, world),
                               "--offload-optimizer-to /nowhere --offload-parameters-to /nowhere");
    const RunPlan plan = planned(c);
    const StepTimeline timeline = step_timeline(plan);
    std::map<TransferTotals::Key, TransferTotals::Total> found;
    for (const StepTimeline::Transfers& some : timeline.transfers) {
      TransferTotals::Total& total = found[{some.file, some.op}];
      total.count += some.count;
      total.bytes += some.bytes;
      EXPECT_LT(some.begin, some.end);
      if (some.file != "exp_avg") continue;
      EXPECT_EQ(some.begin, timeline.update_begin);
    }
    EXPECT_EQ(found, plan.groups.front().memory.transfers.by_key());
    EXPECT_FALSE(found.empty());
    EXPECT_EQ(count(timeline, StateMove::kWeightRead) > 0, world > 1);
  }
}

TEST(StepTimeline, RecomputedPassesAreToldApart) {
  TrainConfig c = with_flags(
      shared_config(3),
      "--recompute-granularity full --recompute-method uniform --recompute-num-layers 2");
  const StepTimeline timeline = step_timeline(planned(c));
  EXPECT_EQ(std::ranges::count(timeline.passes, PassKind::kRecompute, &StepTimeline::Pass::kind),
            4 * kMicrobatches);
  EXPECT_EQ(timeline.passes.size(), (2U * kUnits + 4U) * kMicrobatches);
}

TEST(StepTimeline, WhatCannotBeDrawnIsRefused) {
  const auto draw = [](const TrainConfig& c) { return [=] { step_timeline(planned(c)); }; };
  TrainConfig pipeline = with_flags(planned_config(4), "--pipeline-model-parallel-size 2");
  EXPECT_THAT(draw(pipeline), testing::ThrowsMessage<ConfigError>(
                                  HasSubstr("--pipeline-model-parallel-size 2: phalanx schedule")));
  TrainConfig longer = shared_config(0);
  longer.layout.global_batch_size = 51 * 8;
  EXPECT_THAT(draw(longer),
              testing::ThrowsMessage<ConfigError>(HasSubstr("a step of 612 passes of units")));
  longer.layout.global_batch_size = 50 * 8;
  EXPECT_NO_THROW(draw(longer)());
}

int occurrences(const std::string& text, std::string_view part) {
  int times = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++times;
  }
  return times;
}

TEST(StepTimeline, APictureHasEveryPassAndMove) {
  const StepTimeline timeline = step_timeline(planned(shared_config(3)));
  const std::string svg = to_svg(timeline, "one <step>");
  constexpr int kInLegend = 1;
  EXPECT_EQ(occurrences(svg, "class=\"forward\""), kUnits * kMicrobatches + kInLegend);
  EXPECT_EQ(occurrences(svg, "class=\"backward\""), kUnits * kMicrobatches + kInLegend);
  EXPECT_EQ(occurrences(svg, "class=\"whole\""), count(timeline, StateMove::kWeights) + kInLegend);
  EXPECT_EQ(occurrences(svg, "class=\"sum\""),
            count(timeline, StateMove::kGradientSum) + kInLegend);
  EXPECT_EQ(occurrences(svg, ">microbatch "), kMicrobatches);
  EXPECT_EQ(occurrences(svg, "class=\"recompute\""), 0);
  EXPECT_THAT(svg, HasSubstr("<title id=\"title\">one &lt;step&gt;</title>"));
  EXPECT_THAT(svg, HasSubstr("<title>layer 2, backward, microbatch 1</title>"));
  EXPECT_THAT(
      svg, HasSubstr(fmt::format("{} gathers of weights", count(timeline, StateMove::kWeights))));
}

}  // namespace
}  // namespace phalanx
