#include "phalanx/rendezvous/members.h"

#include <gtest/gtest.h>

#include "phalanx/base/error.h"

namespace phalanx::rendezvous {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const ConnectionEnd kClosed{ConnectionEnd::Kind::kClosed, "its connection was closed"};
const ConnectionEnd kCut{ConnectionEnd::Kind::kCut, "its connection was cut"};

class GroupTest : public testing::Test {
 protected:
  static JoinRequest request(int number, int size) {
    const std::string host = number < 2 ? "n01" : "n02";
    return {size, number / 2, number % 2, 2, 100 + number, host, host};
  }
  void open(GroupOptions options) {
    options.coordinator = "rank 0 (host n01, pid 100)";
    const auto send = [this](int number, const Group::Bytes& bytes, bool) {
      sent_.emplace_back(number, decode(*bytes));
    };
    group_.emplace(std::move(options), send, now_);
  }
  void open(int size, milliseconds hold = {}) {
    GroupOptions options;
    options.size = size;
    options.hold = hold;
    open(options);
  }
  void join_all(int size) {
    for (int number = 0; number < size; ++number) {
      EXPECT_FALSE(group_->join(number, request(number, size), now_));
    }
  }
  // To whom a message of this type was sent since the last call.
  template <typename Type>
  std::vector<int> told() {
    std::vector<int> numbers;
    for (const auto& [number, message] : sent_) {
      if (std::holds_alternative<Type>(message)) {
        numbers.push_back(number);
        if constexpr (std::is_same_v<Type, Failed>)
          reason_ = std::get<Failed>(message).failure.reason;
        if constexpr (std::is_same_v<Type, Refusal>) reason_ = std::get<Refusal>(message).text;
        if constexpr (std::is_same_v<Type, RoundResult>) texts_ = std::get<Type>(message).texts;
      }
    }
    sent_.clear();
    return numbers;
  }
  static RoundPart part(std::int64_t round, std::string text, RoundKind kind = RoundKind::kGather) {
    return {round, kind, std::move(text)};
  }

  Group::Clock::time_point now_ = Group::Clock::time_point(std::chrono::hours(1));
  std::vector<std::pair<int, Message>> sent_{};
  std::optional<Group> group_{};
  std::string reason_{};
  std::vector<std::string> texts_{};
};

TEST_F(GroupTest, WelcomesAllWhenAllHaveCome) {
  open(3);
  EXPECT_FALSE(group_->join(1, request(1, 3), now_));
  EXPECT_FALSE(group_->join(0, request(0, 3), now_));
  EXPECT_TRUE(told<Welcome>().empty());
  EXPECT_EQ(group_->roll_call(now_ + seconds(4)), std::nullopt);
  EXPECT_EQ(group_->roll_call(now_ + seconds(5)), "2/3 joined, missing rank 2");
  EXPECT_EQ(group_->roll_call(now_ + seconds(9)), std::nullopt);
  EXPECT_FALSE(group_->join(2, request(2, 3), now_));
  EXPECT_EQ(told<Welcome>(), (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(group_->roll_call(now_ + seconds(20)), std::nullopt);
}

TEST_F(GroupTest, RefusesAllWhenOneDoesNotCome) {
  open(3);
  group_->join(1, request(1, 3), now_);
  group_->join(0, request(0, 3), now_);
  EXPECT_FALSE(group_->judge(now_ + std::chrono::minutes(9)));
  const auto verdict = group_->judge(now_ + std::chrono::minutes(10));
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->code, ErrorCode::kUnavailable);
  EXPECT_EQ(verdict->culprits, (std::vector<int>{2}));
  EXPECT_EQ(told<Refusal>(), (std::vector<int>{0, 1}));
  EXPECT_EQ(reason_, "not all ranks have come within 600 s: 2/3 joined, missing rank 2");
  const auto late = group_->join(2, request(2, 3), now_);
  ASSERT_TRUE(late);
  EXPECT_EQ(late->code, ErrorCode::kUnavailable);
}

TEST_F(GroupTest, WhoGoesBeforeAllHaveComeEndsTheWait) {
  open(3);
  group_->join(1, request(1, 3), now_);
  group_->join(0, request(0, 3), now_);
  group_->lost(1, kClosed, now_);
  ASSERT_TRUE(group_->judge(now_));
  EXPECT_EQ(told<Refusal>(), (std::vector<int>{0}));
  EXPECT_EQ(reason_,
            "rank 1 (host n01, pid 101) is gone before all had joined: its connection was closed");
}

TEST_F(GroupTest, GathersAndBroadcastsInRounds) {
  open(3);
  join_all(3);
  group_->heard(2, part(0, "c"), now_);
  group_->heard(0, part(0, "a"), now_);
  EXPECT_TRUE(told<RoundResult>().empty());
  group_->heard(1, part(0, "b"), now_);
  EXPECT_EQ(told<RoundResult>(), (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(texts_, (std::vector<std::string>{"a", "b", "c"}));
  for (const int number : {1, 0, 2}) {
    group_->heard(number, part(1, number == 0 ? "all" : "", RoundKind::kBroadcast), now_);
  }
  EXPECT_EQ(told<RoundResult>().size(), 3U);
  EXPECT_EQ(texts_, (std::vector<std::string>{"all"}));
}

TEST_F(GroupTest, WhoExchangesOtherwiseFails) {
  for (const auto& wrong : {part(1, "b"), part(0, "b", RoundKind::kBroadcast)}) {
    open(2);
    join_all(2);
    group_->heard(0, part(0, "a"), now_);
    group_->heard(1, RoundPart(wrong), now_);
    const auto verdict = group_->judge(now_);
    ASSERT_TRUE(verdict);
    EXPECT_EQ(verdict->culprits, std::vector<int>{1});
  }
}

TEST_F(GroupTest, AFailureIsToldToAllAndTheFirstCounts) {
  open(3);
  join_all(3);
  group_->heard(1, Failing{"the disk is full"}, now_);
  group_->heard(2, Failing{"rank 1 does not answer"}, now_);
  group_->lost(1, kClosed, now_);
  const auto verdict = group_->judge(now_);
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->culprits, std::vector<int>{1});
  EXPECT_EQ(told<Failed>(), (std::vector<int>{0, 2}));
  EXPECT_NE(reason_.find("the disk is full"), std::string::npos);
  EXPECT_FALSE(group_->judge(now_));
}

TEST_F(GroupTest, GoodbyeIsNobodysFailure) {
  open(2);
  join_all(2);
  group_->heard(1, Goodbye{}, now_);
  EXPECT_EQ(told<GoodbyeHeard>(), std::vector<int>{1});
  EXPECT_FALSE(group_->over());
  group_->lost(1, kClosed, now_);
  group_->ended(1, "exit 0", now_);
  group_->heard(0, Goodbye{}, now_);
  EXPECT_TRUE(group_->over());
  EXPECT_FALSE(group_->judge(now_ + seconds(1)));
}

TEST_F(GroupTest, TheLaunchersWordIsWaitedForAndWins) {
  open(3, milliseconds(30));
  join_all(3);
  group_->lost(2, kClosed, now_);
  EXPECT_TRUE(group_->is_urgent(now_));
  EXPECT_FALSE(group_->judge(now_ + milliseconds(10)));
  group_->ended(2, "killed by signal 9 (SIGKILL)", now_ + milliseconds(11));
  const auto verdict = group_->judge(now_ + milliseconds(11));
  ASSERT_TRUE(verdict);
  EXPECT_NE(verdict->reason.find("killed by signal 9 (SIGKILL)"), std::string::npos);
  EXPECT_EQ(verdict->reason.find("connection"), std::string::npos) << verdict->reason;
}

// Without the launcher's word, and in the order in which they went.
TEST_F(GroupTest, TheEndOfAConnectionIsNotHeldForLong) {
  open(3, milliseconds(30));
  join_all(3);
  group_->lost(2, kClosed, now_);
  group_->heard(0, Failing{"rank 2 does not answer"}, now_ + milliseconds(1));
  const auto verdict = group_->judge(now_ + milliseconds(1));
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->culprits.front(), 2);
  open(3, milliseconds(30));
  join_all(3);
  group_->lost(2, kClosed, now_);
  ASSERT_TRUE(group_->judge(now_ + milliseconds(30)));
}

// The launcher hears of the process' end before the coordinator has read its goodbye.
TEST_F(GroupTest, AGoodbyeThatIsReadLateCounts) {
  open(2, milliseconds(30));
  join_all(2);
  group_->ended(1, "exit 0", now_);
  EXPECT_FALSE(group_->judge(now_ + milliseconds(20)));
  group_->heard(1, Goodbye{}, now_ + milliseconds(21));
  group_->lost(1, kClosed, now_ + milliseconds(21));
  EXPECT_FALSE(group_->judge(now_ + milliseconds(200)));
}

TEST_F(GroupTest, ANodesRanksGoWithItsLauncher) {
  open(4);
  join_all(4);
  group_->node_lost(1, "its launcher is gone: its connection was reset", now_);
  const auto verdict = group_->judge(now_);
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->culprits, (std::vector<int>{2, 3}));
}

TEST_F(GroupTest, LaunchersAreNotJudgedByTheirHeartbeats) {
  GroupOptions options;
  options.noun = "launcher";
  options.size = 2;
  open(options);
  join_all(2);
  group_->heard(1, Beat{}, now_);
  EXPECT_FALSE(group_->judge(now_ + std::chrono::hours(1)));
  group_->lost(1, kClosed, now_ + std::chrono::hours(1));
  const auto verdict = group_->judge(now_ + std::chrono::hours(1));
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->reason, "launcher 1 (host n01, pid 101) is gone: its connection was closed");
}

TEST_F(GroupTest, WhatAMemberCannotSayEndsItsConnection) {
  open(2);
  group_->join(0, request(0, 2), now_);
  EXPECT_THROW(group_->heard(0, Beat{}, now_), UnavailableError);
  group_->join(1, request(1, 2), now_);
  EXPECT_THROW(group_->heard(0, Ping{}, now_), UnavailableError);
  Heartbeat of_rank_9;
  of_rank_9.wait = Heartbeat::Wait{{0, "tp", "all_reduce", 1}, {9}, 1.0};
  EXPECT_THROW(group_->heard(0, Beat{of_rank_9}, now_), UnavailableError);
}

// Over a network: members that come back.
class FarGroup : public GroupTest {
 protected:
  FarGroup() {
    GroupOptions options;
    options.size = 3;
    options.over_network = true;
    options.limits.silence = options.limits.far_silence = seconds(60);
    open(options);
    for (int number = 0; number < 3; ++number) group_->join(number, coming(number), now_);
    sent_.clear();
  }
  static JoinRequest coming(int number) {
    JoinRequest join = request(number, 3);
    join.session = "session " + std::to_string(number);
    return join;
  }
  // Time passes, in which all but `silent` say that they live.
  std::optional<Verdict> pass(milliseconds time, int silent) {
    const auto until = now_ + time;
    while (now_ < until) {
      now_ += milliseconds(100);
      for (int number = 0; number < 3; ++number) {
        Heartbeat heartbeat;
        heartbeat.ticks = ++ticks_;
        if (number != silent) group_->heard(number, Beat{heartbeat}, now_);
      }
      if (std::optional<Verdict> verdict = group_->judge(now_)) return verdict;
    }
    return std::nullopt;
  }
  std::uint64_t ticks_ = 0;
};

TEST_F(FarGroup, WhoIsCutOffMayComeBackUntilItsSilenceIsTooLong) {
  group_->lost(1, kCut, now_);
  EXPECT_FALSE(pass(seconds(50), 1));
  EXPECT_TRUE(group_->knows(1, coming(1)));
  EXPECT_FALSE(group_->over());
  group_->resumed(1, now_);
  EXPECT_EQ(told<Ping>(), std::vector<int>{1});
  const std::vector<std::string> lines = group_->warnings();
  ASSERT_FALSE(lines.empty());
  EXPECT_EQ(lines[0], "rank 1 (host n01, pid 101) is back: its connection was cut");
  EXPECT_FALSE(pass(seconds(50), -1));
  // Not a hang: it is gone.
  group_->lost(1, kCut, now_);
  const auto verdict = pass(seconds(61), 1);
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->code, ErrorCode::kTemporary);
  EXPECT_EQ(verdict->culprits, std::vector<int>{1});
  EXPECT_NE(verdict->reason.find("its connection was cut"), std::string::npos) << verdict->reason;
}

TEST_F(FarGroup, TheLimitIsWhatTheRanksSay) {
  EXPECT_EQ(group_->silence(), seconds(60));
  Heartbeat heartbeat;
  heartbeat.silence_limit = 2.5;
  group_->heard(0, Beat{heartbeat}, now_);
  EXPECT_EQ(group_->silence(), milliseconds(2500));
  group_->lost(1, kCut, now_);
  EXPECT_FALSE(pass(milliseconds(2300), 1));
  const auto verdict = pass(milliseconds(300), 1);
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->code, ErrorCode::kTemporary);
}

TEST_F(FarGroup, WhoHasSilenceBehindItHasTheRestOfIt) {
  EXPECT_FALSE(pass(seconds(58), 1));
  group_->lost(1, kCut, now_);
  const auto begin = now_;
  const auto verdict = pass(seconds(10), 1);
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->code, ErrorCode::kTemporary);
  EXPECT_LE(now_ - begin, milliseconds(2100));
}

TEST_F(FarGroup, WhoseConnectionWasClosedComesBackWithinASecondOrIsDead) {
  group_->lost(1, kClosed, now_);
  EXPECT_FALSE(pass(milliseconds(700), 1));
  group_->resumed(1, now_);
  EXPECT_FALSE(pass(seconds(5), -1));
  const auto begin = now_;
  group_->lost(1, kClosed, now_);
  const auto verdict = pass(seconds(2), 1);
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->culprits, std::vector<int>{1});
  EXPECT_LE(now_ - begin, seconds(1));
}

// What was said meanwhile is said to it too; pings are not.
TEST_F(FarGroup, WhoIsCutOffIsToldLater) {
  group_->lost(1, kCut, now_);
  group_->ping(now_);
  EXPECT_EQ(told<Ping>(), (std::vector<int>{0, 2}));
  for (const int number : {0, 1, 2}) group_->heard(number, part(0, "x"), now_);
  EXPECT_EQ(told<RoundResult>(), (std::vector<int>{0, 1, 2}));
}

// Which of two was first shows when one comes back, or does not.
TEST_F(FarGroup, AFailureWaitsForWhoMayBeBack) {
  group_->lost(1, kClosed, now_);
  group_->heard(2, Failing{"the loss is not a number"}, now_);
  EXPECT_FALSE(group_->judge(now_));
  group_->resumed(1, now_ + milliseconds(300));
  const auto failed = pass(seconds(1), -1);
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->culprits, std::vector<int>{2});
}

TEST_F(FarGroup, AFailureIsNotTheReasonWhereSomebodyWasLostBefore) {
  group_->lost(1, kClosed, now_);
  group_->heard(2, Failing{"rank 1 does not answer"}, now_);
  const auto lost = pass(seconds(1), 1);
  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->culprits, std::vector<int>{1});
}

// With a launcher that would have told of its end there is more time.
TEST_F(FarGroup, WhoIsWatchedHasLongerToComeBack) {
  GroupOptions options;
  options.size = 3;
  options.over_network = true;
  options.hold = milliseconds(30);
  open(options);
  for (int number = 0; number < 3; ++number) group_->join(number, coming(number), now_);
  group_->lost(1, kClosed, now_);
  EXPECT_FALSE(pass(seconds(4), 1));
  group_->ended(1, "killed by signal 9 (SIGKILL)", now_);
  EXPECT_TRUE(group_->judge(now_));
}

TEST_F(FarGroup, WhoseEndItsLauncherTellsIsDeadAtOnce) {
  group_->lost(1, kCut, now_);
  group_->ended(1, "killed by signal 9 (SIGKILL)", now_);
  const auto verdict = group_->judge(now_);
  ASSERT_TRUE(verdict);
  EXPECT_NE(verdict->reason.find("killed by signal 9"), std::string::npos) << verdict->reason;
}

TEST_F(FarGroup, WhatCannotBeIsNotForgiven) {
  group_->lost(1, {ConnectionEnd::Kind::kFault, "its connection was ended: a wrong MAC"}, now_);
  EXPECT_TRUE(group_->judge(now_));
}

TEST_F(FarGroup, AnotherProcessIsNotTakenForTheOneThatWasCutOff) {
  group_->lost(1, kCut, now_);
  JoinRequest other = coming(1);
  other.session = "session 2";
  EXPECT_FALSE(group_->knows(1, other));
  other.session.clear();
  EXPECT_FALSE(group_->knows(1, other));
  EXPECT_TRUE(group_->join(1, other, now_));
}

// The coordinator itself was stopped: nobody could come back to it.
TEST_F(FarGroup, ItsOwnGapIsNobodysSilence) {
  EXPECT_FALSE(pass(seconds(1), -1));
  group_->lost(1, kClosed, now_);
  EXPECT_FALSE(group_->judge(now_));
  now_ += seconds(100);
  EXPECT_FALSE(group_->judge(now_));
  EXPECT_TRUE(pass(seconds(2), 1));
}

}  // namespace
}  // namespace phalanx::rendezvous
