#include "phalanx/pipeline/message_verifier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "phalanx/base/error.h"
#include "phalanx/pipeline/lowering.h"
#include "phalanx/pipeline/schedules/test_support.h"
#include "phalanx/pipeline/schedules/test_vectors.h"
#include "phalanx/pipeline/test_support.h"
#include "phalanx/pipeline/verifier.h"

namespace phalanx {
namespace {

using testing::Each;
using testing::HasSubstr;
using testing::Le;

constexpr Transport kTransports[] = {Transport::kRendezvous,     Transport::kBuffered,
                                     Transport::kRankQueue,      Transport::kPeerQueue,
                                     Transport::kDirectionQueue, Transport::kGrouped};

std::string fault_of(const std::vector<Program>& programs, Transport transport, int capacity = 0) {
  return message_fault(programs, transport, capacity).value_or("");
}

void check_at_consumer(const ExpectedSchedule& expected, int ranks, int microbatches,
                       const ReceivesAtConsumer& row) {
  SCOPED_TRACE(testing::Message() << expected.kind << " on " << ranks);
  const auto programs =
      lower_at_consumer(schedule_of(expected.kind, ranks, microbatches, expected.chunks));
  if (row.capacity == ReceivesAtConsumer::kMismatch) {
    for (const Transport transport : kTransports) {
      EXPECT_THAT(fault_of(programs, transport, 99), HasSubstr("is expected"));
    }
    return;
  }
  for (int capacity = 0; capacity < row.capacity; ++capacity) {
    EXPECT_THAT(fault_of(programs, Transport::kBuffered, capacity),
                HasSubstr("wait for each other"));
  }
  EXPECT_EQ(fault_of(programs, Transport::kBuffered, row.capacity), "");
  EXPECT_EQ(fault_of(programs, Transport::kRendezvous).empty(), row.capacity == 0);
  EXPECT_EQ(fault_of(programs, Transport::kRankQueue).empty(), row.rank_queue);
  EXPECT_EQ(fault_of(programs, Transport::kPeerQueue).empty(), row.peer_queue);
  EXPECT_EQ(fault_of(programs, Transport::kDirectionQueue).empty(), row.direction_queue);
  EXPECT_EQ(fault_of(programs, Transport::kGrouped).empty(), row.grouped);
}

// With two ranks both neighbours are the same rank.
TEST(MessageFault, ReceivesJustBeforeTheirPass) {
  for (const ExpectedSchedule& expected : kExpectedSchedules) {
    check_at_consumer(expected, 4, 8, expected.on_4_ranks);
    check_at_consumer(expected, 2, 4, expected.on_2_ranks);
  }
}

TEST(MessageFault, TheOrderOfTheReplayGetsThroughEverywhere) {
  for (const ScheduleKind& kind : schedule_kinds()) {
    for (const int ranks : {2, 4}) {
      const auto programs = lower(schedule_of(kind.name, ranks, 2 * ranks));
      for (const Transport transport : kTransports) {
        EXPECT_EQ(fault_of(programs, transport), "") << kind.name << " on " << ranks;
      }
      EXPECT_EQ(fault_of(programs, Transport::kBuffered, 1), "") << kind.name << " on " << ranks;
    }
  }
}

TEST(MessageFault, TellsWhatEveryStuckRankIsAt) {
  EXPECT_EQ(fault_of(lower_at_consumer(schedule_of("1f1b", 2, 4)), Transport::kRendezvous),
            "the ranks wait for each other: r0: send act 1.0 to 1; r1: send grad 0.0 to 0");
  const auto programs = lower_at_consumer(schedule_of("1f1b", 4, 8));
  EXPECT_EQ(fault_of(programs, Transport::kRendezvous),
            "the ranks wait for each other: r0: send act 3.0 to 1; r1: send act 2.0 to 2; "
            "r2: send act 1.0 to 3; r3: send grad 0.0 to 2");
  EXPECT_EQ(fault_of(lower_at_consumer(schedule_of("1f1b", 2, 4)), Transport::kPeerQueue),
            "the ranks wait for each other: r0: B0.0 waits for receive grad 0.0 from 1; "
            "r1: F1.0 waits for receive act 1.0 from 0");
}

TEST(MessageFault, TellsTheFirstMessageThatIsNotExpected) {
  EXPECT_EQ(fault_of(lower_at_consumer(schedule_of("zb-v", 2, 4)), Transport::kRendezvous),
            "message 2 from rank 0 to rank 1: act 2 of stage 0 is sent, grad 0 of stage 3 is "
            "expected");
}

// The passes are possible, but messages are sent in another order than they are received.
TEST(MessageFault, TwoSwappedInputGradients) {
  Schedule schedule = schedule_of("zb-h1", 4, 8);
  auto& list = schedule.ranks[2];
  const auto place = [&](const char* name) {
    return std::ranges::find(list, name, [](const Action& a) { return to_string(a); });
  };
  std::iter_swap(place("b3.0"), place("b4.0"));
  verify(schedule);
  EXPECT_EQ(fault_of(lower_at_consumer(schedule), Transport::kDirectionQueue),
            "message 3 from rank 2 to rank 1: grad 4 of stage 2 is sent, grad 3 of stage 2 is "
            "expected");
  for (const Transport transport : kTransports) EXPECT_EQ(fault_of(lower(schedule), transport), "");
}

class Messages : public testing::Test {
 protected:
  static Action message(ActionKind kind, int peer, int microbatch) {
    return {.kind = kind, .microbatch = microbatch, .peer = peer};
  }
  static Action send(int peer, int microbatch) {
    return message(ActionKind::kSend, peer, microbatch);
  }
  static Action receive(int peer, int microbatch) {
    return message(ActionKind::kReceive, peer, microbatch);
  }
  static Action forward(int microbatch) { return pass(ActionKind::kForward, 0, microbatch); }

  static std::string fault(const std::vector<std::vector<Action>>& lists, Transport transport,
                           int capacity = 0) {
    std::vector<Program> programs;
    for (const auto& list : lists) programs.push_back({.actions = list, .microbatches = 3});
    return fault_of(programs, transport, capacity);
  }
};

TEST_F(Messages, MissingEnds) {
  EXPECT_EQ(fault({{forward(0), send(1, 0)}, {}}, Transport::kRankQueue),
            "message 0 from rank 0 to rank 1: act 0 of stage 0 is sent, nothing is expected");
  EXPECT_EQ(fault({{forward(0)}, {receive(0, 2), forward(2)}}, Transport::kRankQueue),
            "message 0 from rank 0 to rank 1: nothing is sent, act 2 of stage 0 is expected");
}

TEST_F(Messages, OutOfOrderWithinTheirRank) {
  EXPECT_EQ(fault({{send(1, 0), forward(0)}, {receive(0, 0)}}, Transport::kRankQueue),
            "r0: send act 0.0 to 1 comes before the pass that makes it");
  EXPECT_EQ(fault({{forward(0), send(1, 0)}, {forward(0), receive(0, 0)}}, Transport::kRankQueue),
            "r1: receive act 0.0 from 0 comes behind the pass that reads it");
  EXPECT_EQ(fault({{forward(0), send(1, 0), send(1, 0)}, {receive(0, 0), receive(0, 0)}},
                  Transport::kRankQueue),
            "r1: receive act 0.0 from 0 comes twice");
  EXPECT_EQ(
      fault({{forward(0), message(ActionKind::kAwaitSend, 1, 0), send(1, 0)}, {receive(0, 0)}},
            Transport::kRankQueue),
      "r0: sent act 0.0 to 1 is awaited before it is sent");
}

// An await stops the rank only if sends are started without waiting.
TEST_F(Messages, AwaitsAreForTheSend) {
  const std::vector<std::vector<Action>> lists = {
      {forward(0), send(1, 0), message(ActionKind::kAwaitSend, 1, 0), forward(1), send(2, 1)},
      {receive(2, 2), receive(0, 0)},
      {receive(0, 1), forward(2), send(1, 2)},
  };
  EXPECT_EQ(fault(lists, Transport::kDirectionQueue), "");
  EXPECT_EQ(fault(lists, Transport::kBuffered, 1), "");
  EXPECT_EQ(fault(lists, Transport::kPeerQueue), "");
  EXPECT_EQ(fault(lists, Transport::kRankQueue),
            "the ranks wait for each other: r0: sent act 0.0 to 1 waits for send act 0.0 to 1");
}

// The second send waits for room, since the receiver sends first.
TEST_F(Messages, ABufferHoldsItsCapacity) {
  Action back = send(0, 0);
  Action back_end = receive(1, 0);
  back.payload = back_end.payload = Payload::kGradient;
  const std::vector<std::vector<Action>> lists = {
      {forward(0), send(1, 0), forward(1), send(1, 1), back_end},
      {pass(ActionKind::kBackward, 0, 0), back, receive(0, 0), receive(0, 1)},
  };
  EXPECT_EQ(fault(lists, Transport::kRendezvous),
            "the ranks wait for each other: r0: send act 0.0 to 1; r1: send grad 0.0 to 0");
  EXPECT_EQ(fault(lists, Transport::kBuffered, 1), "");
  std::vector<std::vector<Action>> crossed = lists;
  std::swap(crossed[1][1], crossed[1][3]);
  std::swap(crossed[1][1], crossed[1][2]);
  std::swap(crossed[0][4], crossed[0][3]);
  EXPECT_EQ(fault(crossed, Transport::kBuffered, 99),
            "the ranks wait for each other: r0: receive grad 0.0 from 1; r1: receive act 1.0 from "
            "0");
}

// Messages on both sides of an update are in two groups.
TEST_F(Messages, GroupsEndAtPassesAndUpdates) {
  Action back = send(0, 0);
  Action back_end = receive(1, 0);
  back.payload = back_end.payload = Payload::kGradient;
  const Action backward = pass(ActionKind::kBackward, 0, 0);
  const Action reduction = {.kind = ActionKind::kReduceGradients};
  const Action step = {.kind = ActionKind::kOptimizerStep};
  EXPECT_EQ(fault({{forward(0), send(1, 0), reduction, back_end},
                   {backward, back, reduction, receive(0, 0)}},
                  Transport::kGrouped),
            "");
  for (const Action& between : {step, forward(1)}) {
    EXPECT_EQ(fault({{forward(0), send(1, 0), between, back_end},
                     {backward, back, between, receive(0, 0)}},
                    Transport::kGrouped),
              "the ranks wait for each other: r0: send act 0.0 to 1; r1: send grad 0.0 to 0");
  }
}

TEST(ReceiveBuffers, FewerThanTheMessages) {
  EXPECT_THAT(receive_buffers(lower(schedule_of("interleaved", 8, 16))),
              testing::AllOf(Each(Le(4)), testing::Contains(3)));
  EXPECT_THAT(receive_buffers(lower(schedule_of("gpipe", 4, 8))), Each(1));
  EXPECT_THAT(receive_buffers(lower_at_consumer(schedule_of("interleaved", 4, 8))), Each(1));
  // Both messages at once, and one before the pass that makes the other.
  std::vector<Program> programs = lower_at_consumer(schedule_of("1f1b", 2, 2));
  auto& list = programs[1].actions;
  const auto second = std::ranges::find(list, "receive act 1.0 from 0",
                                        [](const Action& action) { return to_string(action); });
  ASSERT_NE(second, list.end());
  std::rotate(list.begin(), second, second + 1);
  std::rotate(list.begin(), list.begin() + 1, list.begin() + 2);
  EXPECT_EQ(receive_buffers(programs)[1], 2);
}

}  // namespace
}  // namespace phalanx
