#include "phalanx/rendezvous/gate.h"

#include <gtest/gtest.h>

namespace phalanx::rendezvous {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class GateTest : public testing::Test {
 protected:
  Gate::Answer enter(Gate::Id id, const std::string& address) {
    return gate_.enter(id, address, now_, evicted_);
  }
  void fail_often(const std::string& address, int times) {
    for (int time = 0; time < times; ++time) {
      const auto id = static_cast<Gate::Id>(1000000 + time);
      if (enter(id, address) != Gate::Answer::kEnter) return;
      lines_ += gate_.failed(id, "no hello", now_) ? 1 : 0;
    }
  }

  Gate gate_{};
  Gate::Clock::time_point now_ = Gate::Clock::time_point(std::chrono::hours(1));
  std::optional<Gate::Id> evicted_{};
  int lines_ = 0;
};

TEST_F(GateTest, HoldsSixtyFourAndLetsTheOldestOfTheBusiestMakeRoom) {
  EXPECT_EQ(enter(500, "rank"), Gate::Answer::kEnter);
  for (Gate::Id id = 1; id < 64; ++id) EXPECT_EQ(enter(id, "idle"), Gate::Answer::kEnter);
  EXPECT_FALSE(gate_.has_room(now_));
  EXPECT_EQ(enter(64, "late"), Gate::Answer::kLater);
  now_ += milliseconds(10);
  EXPECT_TRUE(gate_.has_room(now_));
  EXPECT_EQ(enter(64, "late"), Gate::Answer::kEnter);
  EXPECT_EQ(evicted_, std::optional<Gate::Id>(1));
  EXPECT_EQ(gate_.pending(), 64U);
  gate_.leave(500);
  EXPECT_EQ(enter(65, "late"), Gate::Answer::kEnter);
  EXPECT_FALSE(evicted_);
}

// A proof takes a round trip more than a hello: a connection that owes only it stays longer, unless
// its address has many.
TEST_F(GateTest, GivesAWholeHelloTimeForTheProof) {
  for (Gate::Id id = 1; id <= 60; ++id) {
    EXPECT_EQ(enter(id, "host " + std::to_string(id)), Gate::Answer::kEnter);
    gate_.said_hello(id);
  }
  for (Gate::Id id = 61; id <= 64; ++id) EXPECT_EQ(enter(id, "idle"), Gate::Answer::kEnter);
  now_ += milliseconds(100);
  for (Gate::Id id = 65; id <= 68; ++id) {
    EXPECT_EQ(enter(id, "host " + std::to_string(id)), Gate::Answer::kEnter);
    EXPECT_EQ(evicted_, std::optional<Gate::Id>(id - 4)) << "the idle ones";
    gate_.said_hello(id);
  }
  now_ += milliseconds(100);
  EXPECT_EQ(enter(69, "late"), Gate::Answer::kLater);
  now_ += milliseconds(800);
  EXPECT_EQ(enter(69, "late"), Gate::Answer::kEnter);
  EXPECT_EQ(evicted_, std::optional<Gate::Id>(1));
}

TEST_F(GateTest, AnAddressWithManyIsNotSparedForItsHellos) {
  for (Gate::Id id = 1; id <= 64; ++id) {
    EXPECT_EQ(enter(id, id % 2 == 0 ? "attacker" : std::to_string(id)), Gate::Answer::kEnter);
    gate_.said_hello(id);
  }
  EXPECT_EQ(enter(65, "65"), Gate::Answer::kLater);
  now_ += milliseconds(10);
  EXPECT_EQ(enter(65, "attacker"), Gate::Answer::kLater);
  for (Gate::Id id = 65; id <= 80; ++id) {
    EXPECT_EQ(enter(id, std::to_string(id)), Gate::Answer::kEnter);
    EXPECT_EQ(evicted_, std::optional<Gate::Id>(2 * (id - 64)));
  }
  // A quarter of the places is left to it.
  EXPECT_EQ(enter(81, "81"), Gate::Answer::kLater);
}

TEST_F(GateTest, HasMorePlacesWhereMoreWillCome) {
  gate_.expect(10000);
  for (Gate::Id id = 1; id <= 1024; ++id) EXPECT_EQ(enter(id, "any"), Gate::Answer::kEnter);
  EXPECT_EQ(enter(1025, "any"), Gate::Answer::kLater);
}

TEST_F(GateTest, TheServersOwnPauseIsNobodysFault) {
  enter(1, "slow");
  now_ += seconds(5);
  gate_.account_for_own_gap(milliseconds(4900), now_);
  EXPECT_FALSE(gate_.overdue(now_));
  EXPECT_EQ(gate_.overdue(now_ + milliseconds(1900)), std::optional<Gate::Id>(1));
}

TEST_F(GateTest, CountsFailedHellosAlone) {
  for (Gate::Id id = 0; id < 5000; ++id) {
    ASSERT_EQ(enter(id, "hosts behind one address"), Gate::Answer::kEnter);
    gate_.leave(id);
  }
  fail_often("attacker", 5000);
  EXPECT_EQ(enter(1, "attacker"), Gate::Answer::kRefuse);
  EXPECT_EQ(enter(2, "another"), Gate::Answer::kEnter);
  // One in a millisecond.
  now_ += std::chrono::microseconds(1100);
  EXPECT_EQ(enter(3, "attacker"), Gate::Answer::kEnter);
  gate_.failed(3, "no hello", now_);
  EXPECT_EQ(enter(4, "attacker"), Gate::Answer::kRefuse);
}

TEST_F(GateTest, LeavesAnAddressThatFailedFewPlaces) {
  fail_often("attacker", 1);
  for (Gate::Id id = 1; id <= 8; ++id) {
    EXPECT_EQ(enter(id, "attacker"), Gate::Answer::kEnter);
    EXPECT_FALSE(evicted_);
  }
  EXPECT_EQ(enter(9, "attacker"), Gate::Answer::kRefuse);
  now_ += milliseconds(10);
  EXPECT_EQ(enter(9, "attacker"), Gate::Answer::kEnter);
  EXPECT_EQ(evicted_, std::optional<Gate::Id>(1));
  EXPECT_EQ(gate_.pending(), 8U);
}

TEST_F(GateTest, SaysALineForEachSourceNowAndThen) {
  fail_often("attacker", 50);
  EXPECT_EQ(lines_, 1);
  now_ += seconds(10);
  enter(1, "attacker");
  EXPECT_EQ(gate_.failed(1, "no hello", now_),
            std::optional<std::string>(
                "the rendezvous refused attacker: no hello (and 49 times before)"));
  enter(2, "another");
  EXPECT_EQ(gate_.failed(2, "no hello", now_),
            std::optional<std::string>("the rendezvous refused another: no hello"));
}

TEST_F(GateTest, ForgetsAddressesRatherThanGrow) {
  for (int address = 0; address < 5000; ++address) {
    now_ += milliseconds(1);
    fail_often(std::to_string(address), 1);
  }
  EXPECT_EQ(lines_, 5000);
}

TEST_F(GateTest, HelloHasADeadline) {
  enter(1, "slow");
  EXPECT_FALSE(gate_.overdue(now_ + milliseconds(1999)));
  EXPECT_EQ(gate_.overdue(now_ + seconds(2)), std::optional<Gate::Id>(1));
  gate_.leave(1);
  EXPECT_FALSE(gate_.overdue(now_ + seconds(9)));
}

}  // namespace
}  // namespace phalanx::rendezvous
