#include "phalanx/rendezvous/members.h"

#include <gtest/gtest.h>

#include "phalanx/base/error.h"

namespace phalanx::rendezvous {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const ConnectionEnd kClosed{ConnectionEnd::Kind::kClosed, "its connection was closed"};
const ConnectionEnd kCut{ConnectionEnd::Kind::kCut, "its connection was cut"};

class MembersTest : public testing::Test {
 protected:
  static JoinRequest request(int number, int size) {
    const std::string host = number < 2 ? "n01" : "n02";
    return {size, number / 2, number % 2, 2, 100 + number, host, host};
  }
  void open(MembersOptions options) {
    options.coordinator = "rank 0 (host n01, pid 100)";
    reader_.emplace(options.size);
    const auto send = [this](int number, const Members::Bytes& bytes, bool) {
      sent_.emplace_back(number, decode(*bytes));
    };
    members_.emplace(std::move(options), send, now_);
  }
  void open(int size, milliseconds exit_report_wait = {}) {
    MembersOptions options;
    options.size = size;
    options.exit_report_wait = exit_report_wait;
    open(options);
  }
  void join_all(int size) {
    for (int number = 0; number < size; ++number) {
      EXPECT_FALSE(members_->join(number, request(number, size), now_));
    }
  }
  // The members to which a message of this type was sent since the last call.
  template <typename Type>
  std::vector<int> recipients_of() {
    std::vector<int> numbers;
    for (const auto& [number, message] : sent_) {
      if (std::holds_alternative<Type>(message)) {
        numbers.push_back(number);
        if constexpr (std::is_same_v<Type, Failed>)
          reason_ = std::get<Failed>(message).failure.reason;
        if constexpr (std::is_same_v<Type, Refusal>) reason_ = std::get<Refusal>(message).text;
        if constexpr (std::is_same_v<Type, RoundResult>) {
          texts_ = reader_->texts_of(RoundResult(std::get<Type>(message)));
        }
      }
    }
    sent_.clear();
    return numbers;
  }
  static RoundPart part(std::int64_t round, std::string text, RoundKind kind = RoundKind::kGather) {
    return {round, kind, std::move(text)};
  }

  Members::Clock::time_point now_ = Members::Clock::time_point(std::chrono::hours(1));
  std::vector<std::pair<int, ControlMessage>> sent_{};
  std::optional<Members> members_{};
  std::optional<RoundReader> reader_{};
  std::string reason_{};
  std::vector<std::string> texts_{};
};

TEST_F(MembersTest, WelcomesAllWhenAllHaveCome) {
  open(3);
  EXPECT_FALSE(members_->join(1, request(1, 3), now_));
  EXPECT_FALSE(members_->join(0, request(0, 3), now_));
  EXPECT_TRUE(recipients_of<Welcome>().empty());
  EXPECT_EQ(members_->roll_call(now_ + seconds(4)), std::nullopt);
  EXPECT_EQ(members_->roll_call(now_ + seconds(5)), "2/3 joined, missing rank 2");
  EXPECT_EQ(members_->roll_call(now_ + seconds(9)), std::nullopt);
  EXPECT_FALSE(members_->join(2, request(2, 3), now_));
  EXPECT_EQ(recipients_of<Welcome>(), (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(members_->roll_call(now_ + seconds(20)), std::nullopt);
}

TEST_F(MembersTest, RefusesAllWhenOneDoesNotCome) {
  open(3);
  members_->join(1, request(1, 3), now_);
  members_->join(0, request(0, 3), now_);
  EXPECT_FALSE(members_->judge(now_ + std::chrono::minutes(9)));
  const auto verdict = members_->judge(now_ + std::chrono::minutes(10));
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->code, ErrorCode::kUnavailable);
  EXPECT_EQ(verdict->culprits, (std::vector<int>{2}));
  EXPECT_EQ(recipients_of<Refusal>(), (std::vector<int>{0, 1}));
  EXPECT_EQ(reason_, "not all ranks have come within 600 s: 2/3 joined, missing rank 2");
  const auto late = members_->join(2, request(2, 3), now_);
  ASSERT_TRUE(late);
  EXPECT_EQ(late->code, ErrorCode::kUnavailable);
}

TEST_F(MembersTest, WhoGoesBeforeAllHaveComeEndsTheWait) {
  open(3);
  members_->join(1, request(1, 3), now_);
  members_->join(0, request(0, 3), now_);
  members_->on_connection_end(1, kClosed, now_);
  ASSERT_TRUE(members_->judge(now_));
  EXPECT_EQ(recipients_of<Refusal>(), (std::vector<int>{0}));
  EXPECT_EQ(reason_,
            "rank 1 (host n01, pid 101) is gone before all had joined: its connection was closed");
}

TEST_F(MembersTest, GathersAndBroadcastsInRounds) {
  open(3);
  join_all(3);
  members_->on_message(2, part(0, "c"), now_);
  members_->on_message(0, part(0, "a"), now_);
  EXPECT_TRUE(recipients_of<RoundResult>().empty());
  members_->on_message(1, part(0, "b"), now_);
  EXPECT_EQ(recipients_of<RoundResult>(), (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(texts_, (std::vector<std::string>{"a", "b", "c"}));
  for (const int number : {1, 0, 2}) {
    members_->on_message(number, part(1, number == 0 ? "all" : "", RoundKind::kBroadcast), now_);
  }
  EXPECT_EQ(recipients_of<RoundResult>().size(), 3U);
  EXPECT_EQ(texts_, (std::vector<std::string>{"all"}));
}

TEST_F(MembersTest, WhoExchangesOtherwiseFails) {
  for (const auto& wrong : {part(1, "b"), part(0, "b", RoundKind::kBroadcast)}) {
    open(2);
    join_all(2);
    members_->on_message(0, part(0, "a"), now_);
    members_->on_message(1, RoundPart(wrong), now_);
    const auto verdict = members_->judge(now_);
    ASSERT_TRUE(verdict);
    EXPECT_EQ(verdict->culprits, std::vector<int>{1});
  }
}

TEST_F(MembersTest, AFailureIsToldToAllAndTheFirstCounts) {
  open(3);
  join_all(3);
  members_->on_message(1, Failing{"the disk is full"}, now_);
  members_->on_message(2, Failing{"rank 1 does not answer"}, now_);
  members_->on_connection_end(1, kClosed, now_);
  const auto verdict = members_->judge(now_);
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->culprits, std::vector<int>{1});
  EXPECT_EQ(recipients_of<Failed>(), (std::vector<int>{0, 2}));
  EXPECT_NE(reason_.find("the disk is full"), std::string::npos);
  EXPECT_FALSE(members_->judge(now_));
}

TEST_F(MembersTest, GoodbyeIsNobodysFailure) {
  open(2);
  join_all(2);
  members_->on_message(1, Goodbye{}, now_);
  EXPECT_EQ(recipients_of<GoodbyeConfirmed>(), std::vector<int>{1});
  EXPECT_FALSE(members_->is_over());
  members_->on_connection_end(1, kClosed, now_);
  members_->on_process_end(1, "exit 0", now_);
  members_->on_message(0, Goodbye{}, now_);
  EXPECT_TRUE(members_->is_over());
  EXPECT_FALSE(members_->judge(now_ + seconds(1)));
}

TEST_F(MembersTest, TheLaunchersWordIsWaitedForAndWins) {
  open(3, milliseconds(30));
  join_all(3);
  members_->on_connection_end(2, kClosed, now_);
  EXPECT_TRUE(members_->is_urgent(now_));
  EXPECT_FALSE(members_->judge(now_ + milliseconds(10)));
  members_->on_process_end(2, "killed by signal 9 (SIGKILL)", now_ + milliseconds(11));
  const auto verdict = members_->judge(now_ + milliseconds(11));
  ASSERT_TRUE(verdict);
  EXPECT_NE(verdict->reason.find("killed by signal 9 (SIGKILL)"), std::string::npos);
  EXPECT_EQ(verdict->reason.find("connection"), std::string::npos) << verdict->reason;
}

// The launcher does not report: losses count in the order of the connections' ends.
TEST_F(MembersTest, TheEndOfAConnectionIsNotHeldForLong) {
  open(3, milliseconds(30));
  join_all(3);
  members_->on_connection_end(2, kClosed, now_);
  members_->on_message(0, Failing{"rank 2 does not answer"}, now_ + milliseconds(1));
  const auto verdict = members_->judge(now_ + milliseconds(1));
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->culprits.front(), 2);
  open(3, milliseconds(30));
  join_all(3);
  members_->on_connection_end(2, kClosed, now_);
  ASSERT_TRUE(members_->judge(now_ + milliseconds(30)));
}

// The launcher reports the end of the process before the coordinator has read its goodbye.
TEST_F(MembersTest, AGoodbyeThatIsReadLateCounts) {
  open(2, milliseconds(30));
  join_all(2);
  members_->on_process_end(1, "exit 0", now_);
  EXPECT_FALSE(members_->judge(now_ + milliseconds(20)));
  members_->on_message(1, Goodbye{}, now_ + milliseconds(21));
  members_->on_connection_end(1, kClosed, now_ + milliseconds(21));
  EXPECT_FALSE(members_->judge(now_ + milliseconds(200)));
}

TEST_F(MembersTest, ANodesRanksGoWithItsLauncher) {
  open(4);
  join_all(4);
  members_->on_node_lost(1, "its launcher is gone: its connection was reset", now_);
  const auto verdict = members_->judge(now_);
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->culprits, (std::vector<int>{2, 3}));
}

TEST_F(MembersTest, LaunchersAreNotJudgedByTheirHeartbeats) {
  MembersOptions options;
  options.noun = "launcher";
  options.size = 2;
  open(options);
  join_all(2);
  members_->on_message(1, Heartbeat{}, now_);
  EXPECT_FALSE(members_->judge(now_ + std::chrono::hours(1)));
  members_->on_connection_end(1, kClosed, now_ + std::chrono::hours(1));
  const auto verdict = members_->judge(now_ + std::chrono::hours(1));
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->reason, "launcher 1 (host n01, pid 101) is gone: its connection was closed");
}

TEST_F(MembersTest, WhatAMemberCannotSayEndsItsConnection) {
  open(2);
  members_->join(0, request(0, 2), now_);
  EXPECT_THROW(members_->on_message(0, Heartbeat{}, now_), UnavailableError);
  members_->join(1, request(1, 2), now_);
  EXPECT_THROW(members_->on_message(0, Ping{}, now_), UnavailableError);
  Heartbeat of_rank_9;
  of_rank_9.wait = Heartbeat::Wait{{0, "tp", "all_reduce", 1}, {9}, 1.0};
  EXPECT_THROW(members_->on_message(0, Heartbeat(of_rank_9), now_), UnavailableError);
}

// Over a network: members reconnect.
class FarGroup : public MembersTest {
 protected:
  FarGroup() {
    MembersOptions options;
    options.size = 3;
    options.over_network = true;
    options.limits.silence = options.limits.far_silence = seconds(60);
    open(options);
    for (int number = 0; number < 3; ++number) members_->join(number, coming(number), now_);
    sent_.clear();
  }
  static JoinRequest coming(int number) {
    JoinRequest join = request(number, 3);
    join.session = "session " + std::to_string(number);
    return join;
  }
  // Time passes, and all members but `silent` send heartbeats.
  std::optional<Verdict> pass(milliseconds time, int silent) {
    const auto until = now_ + time;
    while (now_ < until) {
      now_ += milliseconds(100);
      for (int number = 0; number < 3; ++number) {
        Heartbeat heartbeat;
        heartbeat.ticks = ++ticks_;
        if (number != silent) members_->on_message(number, Heartbeat(heartbeat), now_);
      }
      if (std::optional<Verdict> verdict = members_->judge(now_)) return verdict;
    }
    return std::nullopt;
  }
  std::uint64_t ticks_ = 0;
};

TEST_F(FarGroup, WhoIsCutOffMayComeBackUntilItsSilenceIsTooLong) {
  members_->on_connection_end(1, kCut, now_);
  EXPECT_FALSE(pass(seconds(50), 1));
  EXPECT_TRUE(members_->is_returning(1, coming(1)));
  EXPECT_FALSE(members_->is_over());
  members_->on_returned(1, now_);
  EXPECT_EQ(recipients_of<Ping>(), std::vector<int>{1});
  const std::vector<std::string> lines = members_->warnings();
  ASSERT_FALSE(lines.empty());
  EXPECT_EQ(lines[0], "rank 1 (host n01, pid 101) is back: its connection was cut");
  EXPECT_FALSE(pass(seconds(50), -1));
  // It is reported as gone, not as hanging.
  members_->on_connection_end(1, kCut, now_);
  const auto verdict = pass(seconds(61), 1);
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->code, ErrorCode::kTemporary);
  EXPECT_EQ(verdict->culprits, std::vector<int>{1});
  EXPECT_NE(verdict->reason.find("its connection was cut"), std::string::npos) << verdict->reason;
}

TEST_F(FarGroup, TheLimitIsWhatTheRanksSay) {
  EXPECT_EQ(members_->silence_limit(), seconds(60));
  Heartbeat heartbeat;
  heartbeat.silence_limit = 2.5;
  members_->on_message(0, Heartbeat(heartbeat), now_);
  EXPECT_EQ(members_->silence_limit(), milliseconds(2500));
  members_->on_connection_end(1, kCut, now_);
  EXPECT_FALSE(pass(milliseconds(2300), 1));
  const auto verdict = pass(milliseconds(300), 1);
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->code, ErrorCode::kTemporary);
}

TEST_F(FarGroup, WhoHasSilenceBehindItHasTheRestOfIt) {
  EXPECT_FALSE(pass(seconds(58), 1));
  members_->on_connection_end(1, kCut, now_);
  const auto begin = now_;
  const auto verdict = pass(seconds(10), 1);
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->code, ErrorCode::kTemporary);
  EXPECT_LE(now_ - begin, milliseconds(2100));
}

TEST_F(FarGroup, WhoseConnectionWasClosedComesBackWithinASecondOrIsDead) {
  members_->on_connection_end(1, kClosed, now_);
  EXPECT_FALSE(pass(milliseconds(700), 1));
  members_->on_returned(1, now_);
  EXPECT_FALSE(pass(seconds(5), -1));
  const auto begin = now_;
  members_->on_connection_end(1, kClosed, now_);
  const auto verdict = pass(seconds(2), 1);
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->culprits, std::vector<int>{1});
  EXPECT_LE(now_ - begin, seconds(1));
}

// Messages that were sent meanwhile are sent to it too; pings are not.
TEST_F(FarGroup, WhoIsCutOffIsToldLater) {
  members_->on_connection_end(1, kCut, now_);
  members_->ping(now_);
  EXPECT_EQ(recipients_of<Ping>(), (std::vector<int>{0, 2}));
  for (const int number : {0, 1, 2}) members_->on_message(number, part(0, "x"), now_);
  EXPECT_EQ(recipients_of<RoundResult>(), (std::vector<int>{0, 1, 2}));
}

// Which of two failed first is decided when one reconnects, or does not in time.
TEST_F(FarGroup, AFailureWaitsForWhoMayBeBack) {
  members_->on_connection_end(1, kClosed, now_);
  members_->on_message(2, Failing{"the loss is not a number"}, now_);
  EXPECT_FALSE(members_->judge(now_));
  members_->on_returned(1, now_ + milliseconds(300));
  const auto failed = pass(seconds(1), -1);
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->culprits, std::vector<int>{2});
}

TEST_F(FarGroup, AFailureIsNotTheReasonWhereSomebodyWasLostBefore) {
  members_->on_connection_end(1, kClosed, now_);
  members_->on_message(2, Failing{"rank 1 does not answer"}, now_);
  const auto lost = pass(seconds(1), 1);
  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->culprits, std::vector<int>{1});
}

// With a launcher, which would report its end, a member has more time.
TEST_F(FarGroup, WhoIsWatchedHasLongerToComeBack) {
  MembersOptions options;
  options.size = 3;
  options.over_network = true;
  options.exit_report_wait = milliseconds(30);
  open(options);
  for (int number = 0; number < 3; ++number) members_->join(number, coming(number), now_);
  members_->on_connection_end(1, kClosed, now_);
  EXPECT_FALSE(pass(seconds(4), 1));
  members_->on_process_end(1, "killed by signal 9 (SIGKILL)", now_);
  EXPECT_TRUE(members_->judge(now_));
}

TEST_F(FarGroup, WhoseEndItsLauncherTellsIsDeadAtOnce) {
  members_->on_connection_end(1, kCut, now_);
  members_->on_process_end(1, "killed by signal 9 (SIGKILL)", now_);
  const auto verdict = members_->judge(now_);
  ASSERT_TRUE(verdict);
  EXPECT_NE(verdict->reason.find("killed by signal 9"), std::string::npos) << verdict->reason;
}

TEST_F(FarGroup, WhatCannotBeIsNotForgiven) {
  members_->on_connection_end(
      1, {ConnectionEnd::Kind::kFault, "its connection was ended: a wrong MAC"}, now_);
  EXPECT_TRUE(members_->judge(now_));
}

TEST_F(FarGroup, AnotherProcessIsNotTakenForTheOneThatWasCutOff) {
  members_->on_connection_end(1, kCut, now_);
  JoinRequest other = coming(1);
  other.session = "session 2";
  EXPECT_FALSE(members_->is_returning(1, other));
  other.session.clear();
  EXPECT_FALSE(members_->is_returning(1, other));
  EXPECT_TRUE(members_->join(1, other, now_));
}

// The coordinator itself was stopped: no member could reconnect.
TEST_F(FarGroup, ItsOwnGapIsNobodysSilence) {
  EXPECT_FALSE(pass(seconds(1), -1));
  members_->on_connection_end(1, kClosed, now_);
  EXPECT_FALSE(members_->judge(now_));
  now_ += seconds(100);
  EXPECT_FALSE(members_->judge(now_));
  EXPECT_TRUE(pass(seconds(2), 1));
}

}  // namespace
}  // namespace phalanx::rendezvous
