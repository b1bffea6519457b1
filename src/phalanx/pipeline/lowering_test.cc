#include "phalanx/pipeline/lowering.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "phalanx/base/error.h"
#include "phalanx/pipeline/schedules/test_support.h"
#include "phalanx/pipeline/test_support.h"

namespace phalanx {
namespace {

std::string lowered(const Schedule& schedule, std::size_t rank, const Costs& costs = {}) {
  return text_of(lower(schedule, costs)[rank]);
}

TEST(Lower, BothEndsOfAMessageWhenItIsMade) {
  const Schedule schedule = schedule_of("1f1b", 2, 3);
  EXPECT_EQ(lowered(schedule, 0),
            "F0.0 send act 0.0 to 1 "
            "F1.0 send act 1.0 to 1 receive grad 0.0 from 1 "
            "B0.0 sent act 0.0 to 1 "
            "F2.0 send act 2.0 to 1 receive grad 1.0 from 1 sent act 1.0 to 1 "
            "B1.0 receive grad 2.0 from 1 "
            "B2.0 reduce.0 sent act 2.0 to 1 step gather");
  // A message that is made during a pass of the rank comes after it, and before a pass that begins
  // at that time.
  EXPECT_EQ(lowered(schedule, 1),
            "receive act 0.0 from 0 F0.0 receive act 1.0 from 0 "
            "B0.0 send grad 0.0 to 0 "
            "F1.0 "
            "B1.0 receive act 2.0 from 0 send grad 1.0 to 0 sent grad 0.0 to 0 "
            "F2.0 "
            "B2.0 send grad 2.0 to 0 reduce.0 sent grad 1.0 to 0 sent grad 2.0 to 0 step gather");
}

// Their passes stay where they are.
TEST(Lower, SendsNoGradientToStagesThatTrainNothing) {
  Schedule schedule = schedule_of("1f1b", 3, 1);
  schedule.first_trained_stage = 1;
  EXPECT_EQ(lowered(schedule, 0),
            "F0.0 send act 0.0 to 1 B0.0 reduce.0 sent act 0.0 to 1 step gather");
  EXPECT_EQ(lowered(schedule, 1),
            "receive act 0.0 from 0 F0.0 send act 0.0 to 2 receive grad 0.0 from 2 "
            "B0.0 reduce.0 sent act 0.0 to 2 step gather");
}

TEST(Lower, CostsDecideWhereReceivesStand) {
  const Schedule schedule = schedule_of("gpipe", 2, 3);
  EXPECT_THAT(lowered(schedule, 1),
              testing::StartsWith("receive act 0.0 from 0 F0.0 receive act 1.0 from 0 F1.0 "
                                  "receive act 2.0 from 0 F2.0"));
  Costs costs;
  costs.stages = {{1, 1, 1}, {2, 1, 1}};
  EXPECT_THAT(lowered(schedule, 1, costs),
              testing::StartsWith("receive act 0.0 from 0 F0.0 receive act 1.0 from 0 "
                                  "receive act 2.0 from 0 F1.0 F2.0"));
}

TEST(Lower, NeighboursOnOneRankHandOver) {
  const Schedule turn = listed_schedule(
      Placement::wave(2, 2), 1,
      {"F0.0 F0.1 B0.1 B0.0 reduce.1 reduce.0 step", "F0.0 F0.1 B0.1 B0.0 reduce.1 reduce.0 step"});
  EXPECT_EQ(lowered(turn, 0),
            "F0.0 send act 0.0 to 1 receive act 0.1 from 1 "
            "F0.1 "
            "B0.1 send grad 0.1 to 1 sent act 0.0 to 1 receive grad 0.0 from 1 "
            "B0.0 reduce.1 reduce.0 sent grad 0.1 to 1 step");
  EXPECT_EQ(lowered(turn, 1),
            "receive act 0.0 from 0 F0.0 hand act 0.0 to chunk 1 "
            "F0.1 send act 0.1 to 0 receive grad 0.1 from 0 "
            "B0.1 hand grad 0.1 to chunk 0 "
            "B0.0 send grad 0.0 to 0 reduce.1 reduce.0 sent act 0.1 to 0 sent grad 0.0 to 0 step");
  const Action hand_over = lower(turn)[1].actions[2];
  EXPECT_EQ(hand_over.source_stage, 1);
  EXPECT_EQ(lower(turn)[1].actions[2], lower_at_consumer(turn)[1].actions[2]);
}

TEST(Lower, AllStagesOnOneRank) {
  const Schedule schedule =
      listed_schedule(Placement::looped(1, 2), 1, {"F0.0 F0.1 B0.1 B0.0 reduce.1 reduce.0 step"});
  EXPECT_EQ(lowered(schedule, 0),
            "F0.0 hand act 0.0 to chunk 1 F0.1 B0.1 hand grad 0.1 to chunk 0 B0.0 reduce.1 "
            "reduce.0 step");
}

TEST(Lower, MessagesAreNamedByTheStageThatMadeThem) {
  const std::vector<Program> looped = lower(schedule_of("interleaved", 2, 2));
  const auto named = [](const std::vector<Action>& actions, const char* name) {
    const auto found =
        std::ranges::find(actions, name, [](const Action& action) { return to_string(action); });
    EXPECT_NE(found, actions.end()) << name;
    return *found;
  };
  // From stage 1, the first chunk of rank 1, to stage 2, the second of rank 0.
  EXPECT_EQ(named(looped[1].actions, "send act 1.0 to 0").source_stage, 1);
  EXPECT_EQ(named(looped[1].actions, "sent act 1.0 to 0").source_stage, 1);
  EXPECT_EQ(named(looped[0].actions, "receive act 1.1 from 1").source_stage, 1);
  EXPECT_EQ(named(looped[0].actions, "send grad 1.1 to 1").source_stage, 2);
  EXPECT_EQ(named(looped[1].actions, "receive grad 1.0 from 0").source_stage, 2);
  // The two copies of the model have different names.
  const std::vector<Program> both = lower(schedule_of("chimera", 2, 4));
  EXPECT_EQ(named(both[0].actions, "send act 0.0 to 1").source_stage, 0);
  EXPECT_EQ(named(both[0].actions, "receive grad 0.0 from 1").source_stage, 1);
  EXPECT_EQ(named(both[1].actions, "send act 0.1 to 0").source_stage, 2);
  EXPECT_EQ(named(both[1].actions, "receive grad 0.1 from 0").source_stage, 3);
  EXPECT_EQ(both[0].microbatches, 2);
  EXPECT_EQ(both[0].chunks, 2);
}

TEST(Lower, UpdatesOfAStreamWaitForWhatWasSentBefore) {
  EXPECT_EQ(lowered(schedule_of("pipedream", 2, 2), 1),
            "receive act 0.0 from 0 F0.0 receive act 1.0 from 0 "
            "B0.0 send grad 0.0 to 0 reduce.0 step gather "
            "F1.0 "
            "B1.0 send grad 1.0 to 0 reduce.0 sent grad 0.0 to 0 sent grad 1.0 to 0 step gather");
}

TEST(Lower, EvaluationSendsActivationsAlone) {
  const Schedule schedule = forward_only_schedule(Placement::contiguous(2), 2);
  EXPECT_EQ(lowered(schedule, 0),
            "F0.0 send act 0.0 to 1 F1.0 send act 1.0 to 1 sent act 0.0 to 1 sent act 1.0 to 1");
  EXPECT_EQ(lowered(schedule, 1), "receive act 0.0 from 0 F0.0 receive act 1.0 from 0 F1.0");
  EXPECT_TRUE(lower(schedule)[0].forward_only);
}

// Times of zero give no order: the lists are those of equal times.
TEST(Lower, PassesThatTakeNoTime) {
  const Schedule schedule = schedule_of("zb-v", 4, 8);
  for (const Costs& costs : {costs_of(0, 1, 1), costs_of(1, 0, 1), costs_of(0, 0, 0)}) {
    for (std::size_t rank = 0; rank < 4; ++rank) {
      EXPECT_EQ(lowered(schedule, rank, costs), lowered(schedule, rank));
    }
  }
  // No pass reads the result of a weight gradient pass.
  EXPECT_NE(lowered(schedule, 0, costs_of(1, 1, 0)), lowered(schedule, 0));
}

TEST(Lower, ListsThatWaitForEachOtherAreAnError) {
  const auto cyclic =
      listed_schedule(Placement::contiguous(2), 2, {"F0.0 B0.0 F1.0 B1.0", "F0.0 F1.0 B0.0 B1.0"});
  EXPECT_THROW(lower(cyclic), InternalError);
}

TEST(LowerAtConsumer, ReceivesJustBeforeAndSendsJustBehind) {
  EXPECT_EQ(
      text_of(lower_at_consumer(schedule_of("1f1b", 2, 2))[0]),
      "F0.0 send act 0.0 to 1 F1.0 send act 1.0 to 1 receive grad 0.0 from 1 B0.0 "
      "receive grad 1.0 from 1 B1.0 reduce.0 step gather sent act 0.0 to 1 sent act 1.0 to 1");
}

}  // namespace
}  // namespace phalanx
