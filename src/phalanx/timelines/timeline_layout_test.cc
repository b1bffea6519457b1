#include "phalanx/timelines/timeline_layout.h"

#include <gtest/gtest.h>

namespace phalanx {
namespace {

TimedAction timed(ActionKind kind, int microbatch, double begin, double end) {
  return {.action = pass(kind, 0, microbatch), .begin = begin, .end = end};
}

// Two ranks; the second begins at 12 and ends last.
TimelinePicture two_ranks() {
  return {.title = "two",
          .placement = Placement::contiguous(2),
          .timeline = {{timed(ActionKind::kForward, 0, 10, 12),
                        timed(ActionKind::kBackwardInput, 0, 15, 18),
                        timed(ActionKind::kBackwardWeight, 0, 18, 18.5)},
                       {timed(ActionKind::kForward, 0, 12, 14),
                        timed(ActionKind::kBackward, 0, 14, 19)}},
          .unit = "",
          .footer = ""};
}

TEST(TimelineLayoutTest, RowsBeginTogetherOrEachWithItsFirstPass) {
  TimelinePicture picture = two_ranks();
  EXPECT_EQ(row_origins(picture), (std::vector<double>{10, 10}));
  EXPECT_EQ(picture_length(picture), 9.0);
  picture.aligned_to_first = true;
  EXPECT_EQ(row_origins(picture), (std::vector<double>{10, 12}));
  EXPECT_EQ(picture_length(picture), 8.5);
  picture.timeline.emplace_back();  // a rank that does nothing
  EXPECT_EQ(row_origins(picture), (std::vector<double>{10, 12, 10}));
}

TEST(TimelineLayoutTest, KnowsItsPasses) {
  TimelinePicture picture = two_ranks();
  EXPECT_EQ(shortest_pass(picture), 0.5);
  EXPECT_EQ(median_pass(picture), 2.0);
  EXPECT_EQ(last_microbatch(picture), 0);
  picture.timeline[1].push_back(timed(ActionKind::kForward, 7, 19, 19));
  EXPECT_EQ(shortest_pass(picture), 0.5);
  EXPECT_EQ(last_microbatch(picture), 7);
  picture.timeline.clear();
  EXPECT_EQ(shortest_pass(picture), 1.0);
  EXPECT_EQ(picture_length(picture), 0.0);
}

TEST(TimelineLayoutTest, ActivationsAreHeldFromForwardToGradient) {
  // The forward pass of 1 begins when the input gradient of 0 ends: both are not held at once.
  const std::vector<TimedAction> row = {
      timed(ActionKind::kForward, 0, 0, 1), timed(ActionKind::kBackwardInput, 0, 2, 3),
      timed(ActionKind::kForward, 1, 3, 4), timed(ActionKind::kBackward, 1, 4, 6),
      timed(ActionKind::kBackwardWeight, 0, 6, 7)};
  const std::vector<HeldActivations> held = held_activations(row);
  const std::vector<HeldActivations> expected = {
      {0, 1, 1}, {3, 0, 1}, {3, 1, 2}, {6, 0, 1}, {7, 0, 0}};
  EXPECT_EQ(held, expected);
  EXPECT_EQ(most_held(held), (HeldActivations{0, 1, 2}));
  EXPECT_EQ(most_held({}), HeldActivations{});
}

}  // namespace
}  // namespace phalanx
