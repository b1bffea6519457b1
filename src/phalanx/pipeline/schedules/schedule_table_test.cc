// Requests that the kinds accept and refuse, and properties of all kinds.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "phalanx/base/error.h"
#include "phalanx/base/test_support.h"
#include "phalanx/pipeline/schedules/test_support.h"
#include "phalanx/pipeline/verifier.h"

namespace phalanx {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// The error of the request, or "no error".
std::string refusal(std::string_view kind, const ScheduleRequest& request) {
  return error_of<ConfigError>([&] { make_schedule(kind, request); });
}

TEST(ScheduleKinds, Names) {
  std::set<std::string_view> names;
  for (const ScheduleKind& kind : schedule_kinds()) {
    EXPECT_TRUE(names.insert(kind.name).second) << kind.name << " is there twice";
    EXPECT_FALSE(kind.summary.empty()) << kind.name;
    EXPECT_THAT(refusal("2f2b", {}), HasSubstr(kind.name));
  }
  EXPECT_THAT(refusal("2f2b", {}), HasSubstr("choose one of naive, gpipe"));
}

// A schedule that is not refused can run.
TEST(ScheduleKinds, RunInAllSizes) {
  for (const ScheduleKind& kind : schedule_kinds()) {
    // This kind searches for its order, which is slow.
    const int largest = kind.name == "auto" ? 12 : 84;
    int made = 0;
    for (int p = 1; p <= 6; ++p) {
      for (int m = 1; m <= 14 && p * m <= largest; ++m) {
        for (int v = 0; v <= 4; ++v) {
          const ScheduleRequest request{.ranks = p, .microbatches = m, .chunks = v};
          if (refusal(kind.name, request) != "no error") continue;
          SCOPED_TRACE(testing::Message() << kind.name << ": " << p << " ranks, " << m
                                          << " microbatches, " << v << " chunks");
          const Schedule schedule = make_schedule(kind.name, request);
          EXPECT_NO_THROW(verify(schedule));
          EXPECT_EQ(schedule.placement.directions(), kind.directions());
          ++made;
        }
      }
    }
    EXPECT_GE(made, 24) << kind.name;
  }
}

TEST(ScheduleKinds, OneRankHasNoPipeline) {
  for (const char* kind : {"naive", "1f1b", "eager-1f1b", "pipedream", "pipedream-2bw"}) {
    EXPECT_EQ(passes_of(schedule_of(kind, 1, 3)), "F0.0 B0.0 F1.0 B1.0 F2.0 B2.0;") << kind;
  }
  for (const char* kind : {"zb-h1", "zb-h2"}) {
    EXPECT_EQ(passes_of(schedule_of(kind, 1, 2)), "F0.0 b0.0 w0.0 F1.0 b1.0 w1.0;") << kind;
  }
  EXPECT_EQ(passes_of(schedule_of("gpipe", 1, 2)), "F0.0 F1.0 B0.0 B1.0;");
}

TEST(ScheduleKinds, RefuseWhatHasNoOrder) {
  struct Case {
    const char* kind;
    ScheduleRequest request;
    const char* reason;
  };
  const Case cases[] = {
      {"1f1b", {.ranks = 0}, "must be at least 1"},
      {"1f1b", {.microbatches = 0}, "must be at least 1"},
      {"1f1b", {.ranks = 4, .microbatches = 8, .chunks = 2}, "1 chunk"},
      {"zb-v", {.ranks = 4, .microbatches = 8, .chunks = 1}, "2 chunks"},
      {"dualpipe-v", {.ranks = 4, .microbatches = 8, .chunks = 4}, "2 chunks"},
      {"hanayo", {.ranks = 4, .microbatches = 8, .chunks = 3}, "even number"},
      {"hanayo", {.ranks = 4, .microbatches = 8, .chunks = -2}, "even number"},
      {"interleaved", {.ranks = 4, .microbatches = 8, .chunks = -1}, "at least 1 for each rank"},
      {"interleaved", {.ranks = 1, .microbatches = 8}, "at least 2 ranks"},
      {"interleaved", {.ranks = 1, .microbatches = 8, .chunks = 3}, "at least 2 ranks"},
      {"interleaved", {.ranks = 4, .microbatches = 8, .group_size = -1}, "at least 1"},
      {"dualpipe", {.ranks = 3, .microbatches = 8}, "even number of ranks"},
      {"dualpipe", {.ranks = 4, .microbatches = 9}, "even number of microbatches"},
      {"dualpipe", {.ranks = 4, .microbatches = 6}, "at least twice the ranks"},
      {"dualpipe", {.ranks = 4, .microbatches = 8, .chunks = 2}, "1 chunk"},
      {"dualpipe-v", {.ranks = 4, .microbatches = 7}, "at least twice as many"},
      {"chimera", {.ranks = 3, .microbatches = 6}, "even number of ranks"},
      {"chimera", {.ranks = 4, .microbatches = 1}, "one microbatch for either direction"},
      {"pipedream-2bw", {.ranks = 4, .microbatches = 6}, "must be a multiple"},
      {"pipedream-2bw",
       {.ranks = 4, .microbatches = 8, .microbatches_per_update = 3},
       "must be a multiple"},
      {"pipedream-2bw",
       {.ranks = 4, .microbatches = 8, .microbatches_per_update = -4},
       "must be a multiple"},
  };
  for (const Case& c : cases)
    EXPECT_THAT(refusal(c.kind, c.request), HasSubstr(c.reason)) << c.kind;
  EXPECT_EQ(refusal("dualpipe", {.ranks = 4, .microbatches = 8, .chunks = 1}), "no error");
  EXPECT_EQ(refusal("chimera", {.ranks = 4, .microbatches = 7}), "no error");
}

std::vector<int> versions_of(const Schedule& schedule, int rank, ActionKind kind) {
  std::vector<int> versions;
  for (const Action& action : schedule.ranks[static_cast<std::size_t>(rank)]) {
    if (action.kind == kind) versions.push_back(action.version);
  }
  return versions;
}

TEST(ScheduleKinds, WeightVersionsOfPipedream) {
  const Schedule schedule = schedule_of("pipedream", 4, 8);
  const std::vector<int> read[] = {
      {0, 0, 0, 0, 1, 2, 3, 4},
      {0, 0, 0, 1, 2, 3, 4, 5},
      {0, 0, 1, 2, 3, 4, 5, 6},
      {0, 1, 2, 3, 4, 5, 6, 7},
  };
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(versions_of(schedule, rank, ActionKind::kForward), read[rank]);
    EXPECT_EQ(versions_of(schedule, rank, ActionKind::kBackward), read[rank]);
    EXPECT_EQ(live_weight_versions(schedule, rank), 4 - rank);
  }
  EXPECT_EQ(passes_of(schedule), passes_of(schedule_of("1f1b", 4, 8)));
}

Schedule double_buffered(int microbatches, int per_update) {
  return make_schedule(
      "pipedream-2bw",
      {.ranks = 4, .microbatches = microbatches, .microbatches_per_update = per_update});
}

TEST(ScheduleKinds, WeightVersionsOfPipedream2bw) {
  const Schedule schedule = double_buffered(12, 0);
  EXPECT_EQ(schedule.microbatches_per_update, 4);
  EXPECT_EQ(passes_of(schedule), passes_of(schedule_of("1f1b", 4, 12)));
  for (int rank = 0; rank < 4; ++rank) {
    for (const ActionKind kind : {ActionKind::kForward, ActionKind::kBackward}) {
      EXPECT_THAT(versions_of(schedule, rank, kind),
                  ElementsAre(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1));
    }
    EXPECT_EQ(live_weight_versions(schedule, rank), 2);
  }
  // With fewer microbatches than ranks a schedule is generated, and the verifier refuses it.
  EXPECT_THROW(verify(double_buffered(12, 3)), ConfigError);
  EXPECT_THROW(verify(double_buffered(12, 2)), ConfigError);
}

// A pair is a forward pass and the next backward pass, which belongs to the other chunk.
TEST(ScheduleKinds, PairsOfDualpipe) {
  for (const char* kind : {"dualpipe", "dualpipe-v"}) {
    const Schedule schedule = schedule_of(kind, 4, 8);
    std::vector<int> pairs;
    for (const std::vector<Action>& actions : schedule.ranks) {
      pairs.push_back(0);
      for (std::size_t i = 0; i < actions.size(); ++i) {
        if (!actions[i].paired) continue;
        ++pairs.back();
        EXPECT_EQ(actions[i].kind, ActionKind::kForward);
        EXPECT_EQ(actions[i + 1].kind, ActionKind::kBackward);
        EXPECT_NE(actions[i].chunk, actions[i + 1].chunk);
      }
    }
    // Of 2 (n - 2 h + q + 1) + (h - q - 1), innermost one less.
    if (std::string_view(kind) == "dualpipe") {
      EXPECT_THAT(pairs, ElementsAre(3, 3, 3, 3));
    } else {
      EXPECT_THAT(pairs, ElementsAre(5, 6, 7, 7));
    }
  }
}

TEST(ForwardOnly, DeepestStageFirst) {
  EXPECT_EQ(passes_of(forward_only_schedule(Placement::contiguous(1), 4)), "F0.0 F1.0 F2.0 F3.0;");
  EXPECT_EQ(passes_of(forward_only_schedule(Placement::contiguous(2), 2)), "F0.0 F1.0;F0.0 F1.0;");
  EXPECT_EQ(passes_of(forward_only_schedule(Placement::looped(2, 2), 3)),
            "F0.0 F1.0 F0.1 F1.1 F2.0 F2.1;F0.0 F1.0 F0.1 F1.1 F2.0 F2.1;");
  EXPECT_EQ(passes_of(forward_only_schedule(Placement::wave(2, 2), 3)),
            "F0.0 F1.0 F2.0 F0.1 F1.1 F2.1;F0.0 F0.1 F1.0 F1.1 F2.0 F2.1;");
  EXPECT_EQ(passes_of(forward_only_schedule(Placement::bidirectional(2), 3)),
            "F0.0d F0.0u F1.0d;F0.0u F0.0d F1.0d;");
}

TEST(ForwardOnly, AnyPlacement) {
  for (const Placement& placement :
       {Placement::contiguous(3), Placement::looped(4, 3), Placement::wave(3, 4),
        Placement::wave(1, 2), Placement::bidirectional(4)}) {
    for (const int microbatches : {1, 2, 5}) {
      const Schedule schedule = forward_only_schedule(placement, microbatches);
      EXPECT_TRUE(schedule.forward_only);
      EXPECT_EQ(schedule.microbatches, microbatches);
      EXPECT_NO_THROW(verify(schedule)) << name_of(placement.shape());
    }
  }
}

}  // namespace
}  // namespace phalanx
