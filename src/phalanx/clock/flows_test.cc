#include "phalanx/clock/flows.h"

#include <gtest/gtest.h>

#include "phalanx/clock/program_clock_test_support.h"

namespace phalanx {
namespace {

FlowCost on(LinkKind link, double seconds, double latency = 0.0) {
  return {.seconds = seconds, .latency = latency, .link = link};
}
ClockEvent tensor(int token, const FlowCost& cost) { return begin(token, cost, TimePart::kTensor); }
ClockEvent data(int token, const FlowCost& cost) { return begin(token, cost, TimePart::kData); }

// The end of each rank's only pass.
double end_of(const ClockedStep& step, std::size_t rank = 0) { return step.timeline[rank][0].end; }
double end_of(const std::vector<ClockEvent>& events) {
  return end_of(clock_programs({rank_of(events)}));
}

TEST(Flows, WhatIsOnALinkSharesItsRate) {
  const FlowCost two = on(LinkKind::kDevice, 2.0), one = on(LinkKind::kDevice, 1.0);
  // Both at half the rate until the short one is done.
  EXPECT_DOUBLE_EQ(end_of({tensor(1, two), data(2, one), await(2)}), 2.0);
  EXPECT_DOUBLE_EQ(end_of({tensor(1, two), data(2, one), await(1)}), 3.0);
  // The second begins when half of the first has moved.
  EXPECT_DOUBLE_EQ(end_of({tensor(1, two), compute(1.0), data(2, one), await(1)}), 3.0);
  EXPECT_DOUBLE_EQ(end_of({tensor(1, two), compute(1.0), data(2, one), await(2)}), 3.0);
  const ClockedStep step = clock_programs({rank_of({tensor(1, two), data(2, one), await(1)})});
  EXPECT_DOUBLE_EQ(part_of(step, TimePart::kTensor), 3.0);
}

TEST(Flows, LinksAreApart) {
  const FlowCost device = on(LinkKind::kDevice, 2.0);
  EXPECT_DOUBLE_EQ(end_of({tensor(1, device), data(2, on(LinkKind::kCards, 2.0)), await(1)}), 2.0);
  EXPECT_DOUBLE_EQ(end_of({tensor(1, device), data(2, on(LinkKind::kOwn, 2.0)), await(1)}), 2.0);
}

TEST(Flows, NobodySharesALatency) {
  const FlowCost slow_start = on(LinkKind::kDevice, 3.0, 2.0);
  // One second of each moves, from the second second on.
  EXPECT_DOUBLE_EQ(end_of({tensor(1, slow_start), data(2, slow_start), await(1)}), 4.0);
  // Done before the other needs the link.
  EXPECT_DOUBLE_EQ(end_of({tensor(1, slow_start), data(2, on(LinkKind::kDevice, 2.0)), await(1)}),
                   3.0);
}

// A rank that sends one message to each of two others, and may receive one from the first.
std::vector<ClockRank> two_messages(LinkKind second, bool is_answer) {
  const auto message = [](ActionKind kind, int peer, int microbatch) {
    return Action{.kind = kind, .microbatch = microbatch, .peer = peer};
  };
  const auto send = [&](int peer, int microbatch, LinkKind link) {
    return std::pair(message(ActionKind::kSend, peer, microbatch),
                     ClockAction{.message = on(link, 2.0)});
  };
  const auto receive = [&](int peer, int microbatch) {
    return std::pair(message(ActionKind::kReceive, peer, microbatch), ClockAction{});
  };
  const std::pair read = {pass(ActionKind::kForward, 0, 0), ClockAction{}};
  const std::pair read_other = {pass(ActionKind::kForward, 0, 1), ClockAction{}};
  if (is_answer) {
    return {rank_of({send(1, 0, LinkKind::kCards), receive(1, 1), read_other}),
            rank_of({receive(0, 0), send(0, 1, second), read}), rank_of({read})};
  }
  return {rank_of({send(1, 0, LinkKind::kCards), send(2, 1, second)}),
          rank_of({receive(0, 0), read}), rank_of({receive(0, 1), read_other})};
}

TEST(Flows, MessagesToTwoRanksShareTheSendersLink) {
  EXPECT_DOUBLE_EQ(end_of(clock_programs(two_messages(LinkKind::kCards, false)), 1), 4.0);
  EXPECT_DOUBLE_EQ(end_of(clock_programs(two_messages(LinkKind::kDevice, false)), 1), 2.0);
  // The directions of a link are apart.
  EXPECT_DOUBLE_EQ(end_of(clock_programs(two_messages(LinkKind::kCards, true)), 1), 2.0);
  EXPECT_DOUBLE_EQ(end_of(clock_programs(two_messages(LinkKind::kCards, true)), 0), 2.0);
}

// Rank 0 goes on first and begins last: what is earlier gets the disk first.
TEST(Flows, RanksOfANodeShareItsDisk) {
  const auto writing = [](double first, int node) {
    return rank_of({compute(first), begin(1, on(LinkKind::kDisk, 6.0), TimePart::kDisk), await(1)},
                   node);
  };
  const ClockedStep shared = clock_programs({writing(10.0, 0), writing(5.0, 0)});
  EXPECT_DOUBLE_EQ(end_of(shared, 1), 12.0);
  EXPECT_DOUBLE_EQ(end_of(shared, 0), 17.0);
  EXPECT_DOUBLE_EQ(part_of(shared, TimePart::kDisk, 0), 7.0);
  EXPECT_DOUBLE_EQ(part_of(shared, TimePart::kBubble, 0), 0.0);
  const ClockedStep apart = clock_programs({writing(10.0, 0), writing(5.0, 1)});
  EXPECT_DOUBLE_EQ(end_of(apart, 1), 11.0);
  EXPECT_DOUBLE_EQ(end_of(apart, 0), 16.0);
}

// What a step leaves to be written, the next one's transfers wait for: 1 s of work, 5 s of disk.
TEST(Flows, ADiskGoesOnIntoTheNextStep) {
  const ClockEvent read = begin(1, on(LinkKind::kDisk, 2.0), TimePart::kDisk);
  const ClockEvent write = begin(2, on(LinkKind::kDisk, 3.0), TimePart::kDisk);
  const auto step = [&](int ranks) {
    return clock_repeated(std::vector<ClockRank>(static_cast<std::size_t>(ranks),
                                                 rank_of({compute(1.0), read, await(1), write})),
                          {});
  };
  EXPECT_DOUBLE_EQ(step(1).seconds, 5.0);
  EXPECT_DOUBLE_EQ(part_of(step(1), TimePart::kDisk), 4.0);
  EXPECT_DOUBLE_EQ(step(1).disk_goes_on[0], 3.0);
  EXPECT_DOUBLE_EQ(step(2).seconds, 10.0);
  // Nothing is left.
  EXPECT_DOUBLE_EQ(clock_repeated({rank_of({compute(1.0), read, await(1)})}, {}).seconds, 3.0);
}

}  // namespace
}  // namespace phalanx
