#include "phalanx/pipeline/verifier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "phalanx/base/error.h"
#include "phalanx/base/test_support.h"
#include "phalanx/pipeline/schedules/test_support.h"
#include "phalanx/pipeline/simulator.h"
#include "phalanx/pipeline/test_support.h"

namespace phalanx {
namespace {

using testing::HasSubstr;

std::string fault_of(const Schedule& schedule, const VerifierLimits& limits = {}) {
  return error_of<ConfigError>([&] { verify(schedule, limits); });
}

Schedule one_rank(const char* list, int chunks, int microbatches) {
  return listed_schedule(Placement::looped(1, chunks), microbatches, {list});
}

std::vector<Action>::iterator find(std::vector<Action>& list, const char* name) {
  const auto found = std::ranges::find(list, name, [](const Action& a) { return to_string(a); });
  EXPECT_NE(found, list.end()) << name;
  return found;
}

TEST(Verifier, AcceptsAnyPossibleOrder) {
  for (const char* text : {
           "F0.0 b0.0 w0.0 F1.0 B1.0 reduce.0 step",
           "F0.0 F1.0 b1.0 b0.0 w0.0 w1.0 reduce.0 step gather",
           "F1.0 F0.0 B0.0 b1.0 w1.0 reduce.0 step",
           "F0.0 F1.0 B1.0 B0.0 reduce.0 step",
       }) {
    EXPECT_EQ(fault_of(one_rank(text, 1, 2)), "no error") << text;
  }
  EXPECT_EQ(
      fault_of(one_rank(
          "F0.0 F0.1 B0.1 F1.0 B0.0 F1.1 B1.1 reduce.1 b1.0 w1.0 reduce.0 step gather", 2, 2)),
      "no error");
}

struct Fault {
  const char* list;
  const char* message;  // with the first action that breaks a rule
};

TEST(Verifier, RejectsWithTheFirstBrokenRule) {
  const Fault faults[] = {
      // Twice.
      {"F0.0 F0.0 B0.0 F1.0 B1.0 reduce.0 step", "F0.0 of rank 0 runs twice"},
      {"F0.0 B0.0 B0.0 F1.0 B1.0 reduce.0 step", "B0.0 of rank 0 runs twice"},
      {"F0.0 b0.0 b0.0 w0.0 F1.0 B1.0 reduce.0 step", "b0.0 of rank 0 runs twice"},
      {"F0.0 b0.0 w0.0 w0.0 F1.0 B1.0 reduce.0 step", "w0.0 of rank 0 runs twice"},
      {"F0.0 b0.0 B0.0 F1.0 B1.0 reduce.0 step", "B0.0 of rank 0 runs twice"},
      {"F0.0 B0.0 w0.0 F1.0 B1.0 reduce.0 step", "w0.0 of rank 0 runs twice"},
      {"F0.0 B0.0 F1.0 B1.0 reduce.0 reduce.0 step", "reduce.0 of rank 0 runs twice"},
      {"F0.0 B0.0 F1.0 B1.0 reduce.0 step step",
       "step of rank 0 comes before all gradients are reduced"},
      // Out of order.
      {"B0.0 F0.0 F1.0 B1.0 reduce.0 step", "B0.0 of rank 0 comes before its forward pass"},
      {"b0.0 F0.0 w0.0 F1.0 B1.0 reduce.0 step", "b0.0 of rank 0 comes before its forward pass"},
      {"F0.0 w0.0 b0.0 F1.0 B1.0 reduce.0 step", "w0.0 of rank 0 comes before its input gradient"},
      {"F0.0 B0.0 F1.0 reduce.0 B1.0 step",
       "reduce.0 of rank 0 does not come behind the last weight gradient"},
      {"F0.0 B0.0 F1.0 b1.0 reduce.0 w1.0 step",
       "reduce.0 of rank 0 does not come behind the last weight gradient"},
      {"F0.0 B0.0 F1.0 B1.0 step reduce.0",
       "step of rank 0 comes before all gradients are reduced"},
      {"gather F0.0 B0.0 F1.0 B1.0 reduce.0 step", "gather of rank 0 comes before any update"},
      // Missing.
      {"F0.0 B0.0 F1.0", "rank 0 never runs b1.0"},
      {"F0.0 F1.0 b0.0 w0.0 b1.0", "rank 0 never runs w1.0"},
      {"F0.0 B0.0", "rank 0 never runs F1.0"},
      {"", "rank 0 never runs F0.0"},
      {"F0.0 B0.0 F1.0 B1.0 step", "step of rank 0 comes before all gradients are reduced"},
      {"F0.0 B0.0 F1.0 B1.0 reduce.0", "rank 0 ends with weight gradients that no update reads"},
      {"F0.0 B0.0 F1.0 B1.0", "rank 0 ends with weight gradients that no update reads"},
      // Outside.
      {"F2.0", "F2.0 of rank 0 is outside its 1 chunks and 2 microbatches"},
      {"F0.1", "F0.1 of rank 0 is outside its 1 chunks and 2 microbatches"},
      {"F0.0 F1.0 b2.0", "b2.0 of rank 0 is outside"},
  };
  for (const Fault& fault : faults) {
    EXPECT_THAT(fault_of(one_rank(fault.list, 1, 2)), HasSubstr(fault.message)) << fault.list;
  }
}

TEST(Verifier, EveryChunkIsReducedBeforeTheUpdateAndNotChangedAfter) {
  EXPECT_THAT(fault_of(one_rank("F0.0 F0.1 B0.1 B0.0 reduce.0 step", 2, 1)),
              HasSubstr("step of rank 0 comes before all gradients are reduced"));
  Schedule stream = one_rank("F0.0 B0.0 reduce.0 F1.0 B1.0 step reduce.0 step", 1, 2);
  stream.update = UpdateRule::kPerMicrobatch;
  stream.microbatches_per_update = 1;
  EXPECT_THAT(fault_of(stream),
              HasSubstr("B1.0 of rank 0 comes between the reduction and the update"));
}

TEST(Verifier, EvaluationHasForwardPassesAlone) {
  Schedule schedule = one_rank("F0.0 B0.0", 1, 1);
  schedule.forward_only = true;
  EXPECT_THAT(fault_of(schedule),
              HasSubstr("B0.0 of rank 0 is in a schedule of forward passes alone"));
  schedule = one_rank("F0.0", 1, 2);
  schedule.forward_only = true;
  EXPECT_THAT(fault_of(schedule), HasSubstr("rank 0 never runs F1.0"));
  schedule = one_rank("F0.0 step", 1, 1);
  schedule.forward_only = true;
  EXPECT_THAT(fault_of(schedule), HasSubstr("step of rank 0 is in a schedule of forward passes"));
  for (const int chunks : {1, 2, 3}) {
    EXPECT_EQ(fault_of(forward_only_schedule(Placement::looped(4, chunks), 5)), "no error");
  }
}

TEST(Verifier, SchedulesHaveNoMessages) {
  Schedule schedule = one_rank("F0.0 B0.0 reduce.0 step", 1, 1);
  schedule.ranks[0].insert(schedule.ranks[0].begin() + 1, Action{.kind = ActionKind::kSend});
  EXPECT_THAT(fault_of(schedule), HasSubstr("send act 0.0 to 0 of rank 0 is a message"));
}

TEST(Verifier, PairsAreAForwardAndAFusedBackwardPass) {
  for (const char* list :
       {"F0.0 F1.0 B0.0 B1.0 reduce.0 step", "F0.0 b0.0 w0.0 F1.0 B1.0", "F0.0 F1.0 w0.0"}) {
    Schedule schedule = one_rank(list, 1, 2);
    schedule.ranks[0][0].paired = true;
    EXPECT_THAT(fault_of(schedule), HasSubstr("F0.0 of rank 0 is paired with no backward pass"));
  }
  Schedule schedule = one_rank("F0.0", 1, 1);
  schedule.ranks[0][0].paired = true;
  EXPECT_THAT(fault_of(schedule), HasSubstr("F0.0 of rank 0 is paired with no backward pass"));
  schedule = one_rank("F0.0 F1.0 B0.0 B1.0 reduce.0 step", 1, 2);
  schedule.ranks[0][1].paired = true;
  EXPECT_EQ(fault_of(schedule), "no error");
  schedule.ranks[0][2].paired = true;
  EXPECT_THAT(fault_of(schedule), HasSubstr("F1.0 of rank 0 is paired with no backward pass"));
}

// Passes of other copies of the model are named by their direction.
TEST(Verifier, EachDirectionHasItsMicrobatches) {
  Schedule schedule = schedule_of("chimera", 2, 4);
  schedule.ranks[1].erase(find(schedule.ranks[1], "F1.1"));
  EXPECT_THAT(fault_of(schedule), HasSubstr("B1.0u of rank 1 comes before its forward pass"));
  const auto odd = listed_schedule(Placement::bidirectional(2), 1,
                                   {"F0.0 B0.0 reduce.0", "F0.0 B0.0 F0.1 B0.1"});
  EXPECT_THAT(fault_of(odd), HasSubstr("rank 0 ends with weight gradients"));
}

TEST(Verifier, NamesEveryStuckRankAndWhatItWaitsFor) {
  const auto cyclic =
      listed_schedule(Placement::contiguous(2), 2,
                      {"F0.0 B0.0 F1.0 B1.0 reduce.0 step", "F0.0 F1.0 B0.0 B1.0 reduce.0 step"});
  EXPECT_EQ(fault_of(cyclic),
            "schedule listed: rank 0 is stuck at B0.0, which waits for B0.0 of stage 1 on rank 1; "
            "rank 1 is stuck at F1.0, which waits for F1.0 of stage 0 on rank 0");
  // The awaited pass is named as in its list.
  const auto split = listed_schedule(Placement::contiguous(2), 2,
                                     {"F0.0 b0.0 w0.0 F1.0 b1.0 w1.0 reduce.0 step",
                                      "F0.0 F1.0 b0.0 w0.0 b1.0 w1.0 reduce.0 step"});
  EXPECT_EQ(fault_of(split),
            "schedule listed: rank 0 is stuck at b0.0, which waits for b0.0 of stage 1 on rank 1; "
            "rank 1 is stuck at F1.0, which waits for F1.0 of stage 0 on rank 0");
  auto evaluation = listed_schedule(Placement::wave(2, 2), 1, {"F0.0 F0.1", "F0.1 F0.0"});
  evaluation.forward_only = true;
  EXPECT_EQ(fault_of(evaluation),
            "schedule listed: rank 0 is stuck at F0.1, which waits for F0.1 of stage 2 on rank 1; "
            "rank 1 is stuck at F0.1, which waits for F0.0 of stage 1 on rank 1");
}

TEST(Verifier, AWaitForTheOwnListIsForEver) {
  const auto turn =
      listed_schedule(Placement::wave(1, 2), 1, {"F0.1 F0.0 B0.1 B0.0 reduce.0 reduce.1 step"});
  EXPECT_EQ(fault_of(turn),
            "schedule listed: rank 0 is stuck at F0.1, which waits for F0.0 of stage 0 on rank 0");
}

// With a shorter warmup than all but the last chunk of a group, the last rank would begin with the
// backward pass of a microbatch that has not gone forward yet.
TEST(Verifier, WarmupOfInterleavedChunksIsLongEnough) {
  const auto schedule =
      listed_schedule(Placement::looped(2, 2), 2,
                      {"F0.0 F1.0 F0.1 F1.1 B0.1 B1.1 B0.0 B1.0 reduce.1 reduce.0 step",
                       "F0.0 B0.1 F1.0 B1.1 F0.1 B0.0 F1.1 B1.0 reduce.1 reduce.0 step"});
  EXPECT_THAT(fault_of(schedule), HasSubstr("B0.1 of rank 1 comes before its forward pass"));
}

TEST(Verifier, OneDroppedOrDoubledPassOfAGoodSchedule) {
  Schedule schedule = schedule_of("zb-h1", 4, 8);
  ASSERT_EQ(fault_of(schedule), "no error");
  schedule.ranks[2].erase(find(schedule.ranks[2], "w5.0"));
  EXPECT_THAT(fault_of(schedule), HasSubstr("reduce.0 of rank 2 does not come behind"));
  schedule = schedule_of("zb-h1", 4, 8);
  schedule.ranks[1].insert(find(schedule.ranks[1], "F3.0"), pass(ActionKind::kForward, 0, 3));
  EXPECT_THAT(fault_of(schedule), HasSubstr("F3.0 of rank 1 runs twice"));
}

TEST(Verifier, MemoryIsWithinItsLimit) {
  const Schedule schedule = schedule_of("1f1b", 4, 8);
  EXPECT_EQ(fault_of(schedule, {.activations = 4.0}), "no error");
  EXPECT_EQ(fault_of(schedule, {.activations = 3.0}),
            "schedule 1f1b: rank 0 holds the activations of 4 chunks and microbatches at once, the "
            "limit is 3");
  // Later ranks hold the memory of microbatches that wait for their weight gradients.
  const Schedule split = schedule_of("zb-h1", 4, 8);
  EXPECT_EQ(fault_of(split, {.activations = 4.0}), "no error");
  EXPECT_THAT(fault_of(split, {.activations = 3.9}), HasSubstr("rank 0 holds"));
  const Schedule filled = schedule_of("zb-h2", 4, 8);
  EXPECT_EQ(fault_of(filled, {.activations = 7.0, .kept = 1.0}), "no error");
  EXPECT_THAT(fault_of(filled, {.activations = 6.5, .kept = 0.5}), HasSubstr("rank 0 holds"));
}

std::vector<int> live_versions(const Schedule& schedule) {
  std::vector<int> versions;
  for (int rank = 0; rank < schedule.placement.ranks(); ++rank) {
    versions.push_back(live_weight_versions(schedule, rank));
  }
  return versions;
}

TEST(WeightVersions, LiveAtOnce) {
  EXPECT_THAT(live_versions(schedule_of("1f1b", 4, 8)), testing::Each(1));
  EXPECT_THAT(live_versions(schedule_of("pipedream", 4, 8)), testing::ElementsAre(4, 3, 2, 1));
  EXPECT_THAT(live_versions(schedule_of("pipedream-2bw", 4, 8)), testing::Each(1 + 1));
  EXPECT_THAT(live_versions(schedule_of("pipedream-2bw", 4, 16)), testing::Each(2));
  EXPECT_THAT(live_versions(forward_only_schedule(Placement::contiguous(2), 3)), testing::Each(1));
}

TEST(WeightVersions, BothPassesOfAMicrobatchReadTheSame) {
  Schedule schedule = schedule_of("pipedream", 4, 8);
  find(schedule.ranks[0], "B5.0")->version = 3;
  EXPECT_THAT(fault_of(schedule),
              HasSubstr("B5.0 of rank 0 reads another weight version than its forward pass"));
}

TEST(WeightVersions, ExistWhenTheyAreRead) {
  Schedule schedule = schedule_of("pipedream", 4, 8);
  find(schedule.ranks[1], "F6.0")->version = 5;
  EXPECT_THAT(fault_of(schedule),
              HasSubstr("F6.0 of rank 1 reads weight version 5 after 4 updates"));
  schedule = schedule_of("1f1b", 2, 2);
  find(schedule.ranks[0], "F0.0")->version = -1;
  EXPECT_THAT(fault_of(schedule), HasSubstr("F0.0 of rank 0 reads weight version -1"));
  schedule = schedule_of("1f1b", 2, 2);
  find(schedule.ranks[0], "step")->version = 2;
  EXPECT_THAT(fault_of(schedule),
              HasSubstr("step of rank 0 does not make the next weight version"));
}

TEST(WeightVersions, NoMoreAtOnceThanAllowed) {
  const Schedule schedule = schedule_of("pipedream", 4, 8);
  EXPECT_EQ(fault_of(schedule, {.weight_versions = 4}), "no error");
  EXPECT_EQ(fault_of(schedule, {.weight_versions = 3}),
            "schedule pipedream: rank 0 needs 4 weight versions at once, 3 are allowed");
  // Vertical sync: every rank reads the same version as the first one, and keeps it as long.
  Schedule vertical = schedule;
  for (auto& rank : vertical.ranks) {
    for (Action& action : rank) {
      if (is_pass(action.kind)) action.version = std::max(0, action.microbatch - 3);
    }
  }
  EXPECT_THAT(live_versions(vertical), testing::Each(4));
  EXPECT_EQ(fault_of(vertical, {.weight_versions = 4}), "no error");
  EXPECT_THAT(fault_of(vertical),
              HasSubstr("rank 1 needs 4 weight versions at once, 3 are allowed"));
}

// PipeDream-2BW on four ranks needs four microbatches per update.
TEST(WeightVersions, DoubleBufferingNeedsAMicrobatchPerRank) {
  const auto schedule = [](int per_update) {
    return make_schedule("pipedream-2bw",
                         {.ranks = 4, .microbatches = 12, .microbatches_per_update = per_update});
  };
  EXPECT_EQ(fault_of(schedule(4)), "no error");
  EXPECT_EQ(fault_of(schedule(6)), "no error");
  EXPECT_THAT(fault_of(schedule(2)),
              HasSubstr("F4.0 of rank 0 reads weight version 1 after 0 updates"));
  EXPECT_THAT(fault_of(schedule(3)),
              HasSubstr("rank 0 has 4 microbatches in flight, and 3 per update"));
  EXPECT_EQ(fault_of(make_schedule("pipedream-2bw",
                                   {.ranks = 4, .microbatches = 2, .microbatches_per_update = 2})),
            "no error");
}

TEST(TrainingObstacle, AnyOtherOrderThanTheMicrobatches) {
  for (const ScheduleKind& kind : schedule_kinds()) {
    const std::string obstacle = kind.directions() > 1 ? "it has two copies of the model" : "";
    EXPECT_EQ(training_obstacle(schedule_of(kind.name, 4, 8)).value_or(""), obstacle) << kind.name;
  }
  const auto swapped =
      listed_schedule(Placement::looped(2, 2), 2,
                      {"F0.0 F1.0 F0.1 F1.1 b0.1 b1.1 w1.1 w0.1 B0.0 B1.0 reduce.1 reduce.0 step",
                       "F0.0 F1.0 F0.1 F1.1 B0.1 B1.1 B0.0 B1.0 reduce.1 reduce.0 step"});
  verify(swapped);
  EXPECT_EQ(training_obstacle(swapped),
            "it adds the weight gradients of chunk 1 of rank 0 in another order than the "
            "microbatches': 1 before 0");
  // The order of input gradients is no obstacle, but that of losses is.
  const auto losses = listed_schedule(Placement::contiguous(2), 2,
                                      {"F0.0 F1.0 b1.0 b0.0 w0.0 w1.0 reduce.0 step",
                                       "F1.0 b1.0 F0.0 b0.0 w0.0 w1.0 reduce.0 step"});
  verify(losses);
  EXPECT_EQ(training_obstacle(losses),
            "it adds the losses on rank 1 in another order than the microbatches': 1 before 0");
  const auto loads =
      listed_schedule(Placement::contiguous(2), 2,
                      {"F1.0 F0.0 B0.0 B1.0 reduce.0 step", "F0.0 F1.0 B0.0 B1.0 reduce.0 step"});
  verify(loads);
  EXPECT_EQ(training_obstacle(loads),
            "rank 0 begins with microbatch 0 after later ones, and data comes as a stream");
  auto evaluation = listed_schedule(Placement::contiguous(1), 2, {"F1.0 F0.0"});
  evaluation.forward_only = true;
  EXPECT_NE(training_obstacle(evaluation), std::nullopt);
}

}  // namespace
}  // namespace phalanx
