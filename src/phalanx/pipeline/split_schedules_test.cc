// Schedules of an encoder and a decoder: one stage on every rank, cut anywhere.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "phalanx/base/error.h"
#include "phalanx/base/test_support.h"
#include "phalanx/pipeline/lowering.h"
#include "phalanx/pipeline/message_verifier.h"
#include "phalanx/pipeline/schedule.h"
#include "phalanx/pipeline/simulator.h"
#include "phalanx/pipeline/verifier.h"
#include "phalanx/timelines/timeline_drawing.h"
#include "phalanx/timelines/timeline_layout.h"

namespace phalanx {
namespace {

using testing::HasSubstr;
using testing::Not;

std::vector<std::string_view> split_kinds() {
  std::vector<std::string_view> kinds;
  for (const ScheduleKind& kind : schedule_kinds()) {
    if (kind.split_obstacle.empty()) kinds.push_back(kind.name);
  }
  return kinds;
}

// The encoder's stages cost 2, 3 and 2, the decoder's 1, 1 and 1.
Costs uneven(int ranks, int split) {
  Costs costs;
  costs.stages.assign(static_cast<std::size_t>(ranks), {1.0, 1.0, 1.0});
  std::fill_n(costs.stages.begin(), split, StageCosts{2.0, 3.0, 2.0});
  return costs;
}

TEST(SplitSchedules, TheKindsOfOneStage) {
  EXPECT_THAT(split_kinds(), testing::IsSupersetOf({"naive", "gpipe", "1f1b", "eager-1f1b", "zb-h1",
                                                    "zb-h2", "backward-first"}));
  for (const char* kind : {"interleaved", "zb-v", "hanayo", "dualpipe", "pipedream", "auto"}) {
    EXPECT_THAT(split_kinds(), testing::Not(testing::Contains(kind)));
  }
}

TEST(SplitSchedules, AreSoundForEverySplit) {
  for (const std::string_view kind : split_kinds()) {
    for (const int ranks : {2, 3, 4, 6}) {
      for (const int microbatches : {1, 3, 8}) {
        for (int split = 1; split < ranks; ++split) {
          const Costs costs = uneven(ranks, split);
          const Schedule schedule = make_schedule(
              kind, {.ranks = ranks, .microbatches = microbatches, .split = split, .costs = costs});
          SCOPED_TRACE(testing::Message() << kind << " of " << ranks << ", split " << split);
          EXPECT_EQ(schedule.split, split);
          EXPECT_EQ(schedule.placement.chunks(), 1);
          verify(schedule);
          EXPECT_EQ(message_fault(lower(schedule), Transport::kRendezvous), std::nullopt);
          const Simulation simulation = simulate(schedule, costs);
          // A rank of the encoder is the busiest, and no schedule ends before its work.
          EXPECT_EQ(simulation.measures.ideal, 7.0 * microbatches);
          EXPECT_GE(simulation.measures.makespan, simulation.measures.ideal);
        }
      }
    }
  }
}

// The order of passes does not depend on where the stacks meet.
TEST(SplitSchedules, HaveTheOrderOfOneStack) {
  for (const std::string_view kind : split_kinds()) {
    const ScheduleRequest request{.ranks = 4, .microbatches = 8, .chunks = 1};
    ScheduleRequest split = request;
    split.split = 2;
    EXPECT_EQ(make_schedule(kind, request).ranks, make_schedule(kind, split).ranks) << kind;
  }
}

// 1f1b of two stages with forward f and backward b: the slower one works without a break, except
// for the other's work before and after.
TEST(SplitSchedules, ShowTheImbalance) {
  const Costs costs = uneven(2, 1);
  const Schedule schedule = make_schedule("1f1b", {.ranks = 2, .microbatches = 8, .split = 1});
  const Simulation simulation = simulate(schedule, costs);
  EXPECT_EQ(simulation.measures.ideal, 8 * 7.0);
  // After the first two forward passes of the encoder comes the decoder's first pair.
  EXPECT_EQ(simulation.measures.makespan, 8 * 7.0 + 1.0);
}

std::string message_of(std::string_view kind, const ScheduleRequest& request) {
  return error_of<ConfigError>([&] { make_schedule(kind, request); });
}

TEST(SplitSchedules, RefuseWhatHasNoOneStageOnEveryRank) {
  for (const ScheduleKind& kind : schedule_kinds()) {
    if (kind.split_obstacle.empty()) continue;
    EXPECT_THAT(message_of(kind.name, {.ranks = 4, .microbatches = 8, .split = 2}),
                HasSubstr("cannot run an encoder and a decoder"));
  }
  EXPECT_THAT(message_of("1f1b", {.ranks = 4, .microbatches = 8, .split = 4}),
              HasSubstr("must be from 1 to 3"));
  EXPECT_THAT(message_of("1f1b", {.ranks = 4, .microbatches = 8, .split = -1}),
              HasSubstr("must be from 1 to 3"));
  EXPECT_THAT(
      message_of("backward-first", {.ranks = 4, .microbatches = 8, .chunks = 2, .split = 2}),
      HasSubstr("1 chunk on every rank"));
}

TimelinePicture picture(int split) {
  const Schedule schedule = make_schedule("1f1b", {.ranks = 3, .microbatches = 4, .split = split});
  return {.title = "1f1b",
          .placement = schedule.placement,
          .timeline = simulate(schedule, {}).timeline,
          .unit = "",
          .footer = "",
          .split = split};
}

TEST(SplitSchedules, AreDrawnInTwoTints) {
  const TimelinePicture two = picture(1);
  const std::string svg = to_svg({&two, 1});
  for (const char* part :
       {"class=\"pass f-1-encoder\"", "class=\"pass f-2-decoder\"", "class=\"pass b-1-encoder\"",
        ">encoder</text>", ">decoder</text>", "dark: encoder, light: decoder"}) {
    EXPECT_THAT(svg, HasSubstr(part));
  }
  EXPECT_THAT(to_text(two), HasSubstr("rank 1   "));
  EXPECT_THAT(to_text(two), HasSubstr("\nencoder"));
  EXPECT_THAT(to_text(two), HasSubstr("\ndecoder"));
  EXPECT_THAT(to_chrome_trace({&two, 1}, 1e-3),
              testing::AllOf(HasSubstr("rank 0 (encoder)"), HasSubstr("rank 2 (decoder)"),
                             HasSubstr(R"("stack":"decoder")")));
  const TimelinePicture one = picture(0);
  EXPECT_THAT(to_svg({&one, 1}), Not(HasSubstr("coder")));
  EXPECT_THAT(to_text(one), Not(HasSubstr("coder")));
  EXPECT_THAT(to_chrome_trace({&one, 1}, 1e-3), Not(HasSubstr("coder")));
}

}  // namespace
}  // namespace phalanx
