#include "phalanx/rendezvous/coordinator.h"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <set>

#include "phalanx/rendezvous/rendezvous_test_support.h"

namespace phalanx::rendezvous {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

// The error codes and texts of all these members' joins.
std::vector<std::pair<int, std::string>> join_errors(const std::vector<MemberOptions>& options) {
  std::vector<std::pair<int, std::string>> errors(options.size());
  run_all(static_cast<int>(options.size()), [&](int member) {
    const auto at = static_cast<std::size_t>(member);
    errors[at] = error_of([&] { Member::join(options[at]); });
  });
  return errors;
}

TEST(Coordinator, NamesTheMissingRankToAllWhoWait) {
  CoordinatorOptions options = coordinator_options(unix_endpoint(), 3);
  options.join_timeout = milliseconds(300);
  const Coordinator coordinator(options);
  const auto errors = join_errors(
      {member_options(coordinator, options, 0), member_options(coordinator, options, 1)});
  for (const auto& [code, text] : errors) {
    EXPECT_EQ(code, 69);
    EXPECT_NE(text.find("2/3 joined, missing rank 2 (host "), std::string::npos) << text;
  }
}

// A launcher may run commands that know nothing of ranks.
TEST(Coordinator, NobodyWaitsForRanksThatNeedNotJoin) {
  CoordinatorOptions options = coordinator_options(unix_endpoint(), 3);
  options.join_timeout = milliseconds(50);
  std::atomic<int> verdicts = 0;
  options.on_verdict = [&](const Verdict&) { ++verdicts; };
  for (const bool joins : {true, false}) {
    options.ranks_join = joins;
    const Coordinator coordinator(options);
    if (joins) {
      EXPECT_TRUE(eventually([&] { return verdicts == 1; }));
    } else {
      std::this_thread::sleep_for(milliseconds(400));
    }
  }
  EXPECT_EQ(verdicts, 1);
}

// The member's timeout ends before the coordinator's.
TEST(Coordinator, LetsAnImpatientMemberKnowWhoIsMissing) {
  const CoordinatorOptions options = coordinator_options(unix_endpoint(), 3);
  const Coordinator coordinator(options);
  MemberOptions of_rank = member_options(coordinator, options, 0);
  of_rank.join_timeout = milliseconds(200);
  const auto [code, text] = join_errors({of_rank})[0];
  EXPECT_EQ(code, 69);
  EXPECT_NE(text.find("1/3 joined, missing ranks 1-2"), std::string::npos) << text;
}

TEST(Coordinator, RefusesWhoContradicts) {
  CoordinatorOptions options = coordinator_options(unix_endpoint(), 2);
  options.epoch = 3;
  const Coordinator coordinator(options);
  RawClient rank_0(coordinator.endpoint());
  ASSERT_TRUE(rank_0.prove(options.secret, {MemberRole::kRank, 0, 3, "run"}));
  ASSERT_TRUE(rank_0.send_message(JoinRequest{2, 0, 0, 2, 1, "n01", "m"}));
  ASSERT_TRUE(rank_0.receive_message());

  struct Case {
    std::function<void(MemberOptions&)> change;
    int code;
    std::string text;
  };
  const std::vector<Case> cases = {
      {[](MemberOptions& m) { m.environment.rank = 0; }, 78,
       "rank 0 joins twice: from host n01 (pid 1) and from host "},
      {[](MemberOptions& m) { m.environment.world_size = 4; }, 78, " counts 4 ranks, the "},
      {[](MemberOptions& m) { m.environment.rank = 7; }, 78,
       " of 2: they are numbered from 0 to 1"},
      {[](MemberOptions& m) { m.environment.run_id = "other"; }, 78,
       "this is run 'run', not run 'other': two runs on one port?"},
      {[](MemberOptions& m) { m.environment.attempt = 2; }, 69,
       "attempt 2 is over, the run is at attempt 3"},
      {[](MemberOptions& m) { m.role = MemberRole::kLauncher; }, 78, "has no launcher of this run"},
      {[](MemberOptions& m) { m.secret = make_secret(); }, 77,
       "has another secret than this process (from made for this run)"},
      {[](MemberOptions& m) { m.secret = {}; }, 77, "has another secret than this process (none)"},
      {[](MemberOptions& m) {
         m.environment.attempt = 4;
         m.join_timeout = milliseconds(2000);  // an answer must come within it
       },
       69, "attempt 4 has not begun, the run is at attempt 3"},
  };
  for (const Case& each : cases) {
    MemberOptions of_rank = member_options(coordinator, options, 1);
    each.change(of_rank);
    const auto [code, text] = join_errors({of_rank})[0];
    EXPECT_EQ(code, each.code) << text;
    EXPECT_NE(text.find(each.text), std::string::npos) << text;
  }
}

// Ranks of two nodes on one machine are on two hosts.
TEST(Coordinator, TellsPlacesByNode) {
  const CoordinatorOptions options = coordinator_options(tcp_endpoint("127.0.0.1"), 4);
  const Coordinator coordinator(options);
  auto members = join_all(coordinator, options, [](MemberOptions& of_rank) {
    of_rank.environment.node = of_rank.environment.rank / 2;
  });
  for (int rank = 0; rank < 4; ++rank) {
    const RankPlace& place = members[0]->places()[static_cast<std::size_t>(rank)];
    EXPECT_EQ(place.host, rank / 2);
    EXPECT_EQ(place.local_rank, rank % 2);
    EXPECT_EQ(place.local_size, 2);
  }
  EXPECT_EQ(members[0]->network_device(), "lo");
  leave_all(members);
}

TEST(Coordinator, ASilentMemberHangs) {
  CoordinatorOptions options = coordinator_options(unix_endpoint(), 2);
  options.limits.silence = options.limits.far_silence = milliseconds(1500);
  std::atomic<int> verdicts = 0;
  Verdict verdict;
  options.on_verdict = [&](const Verdict& reached) {
    verdict = reached;
    ++verdicts;
  };
  const Coordinator coordinator(options);
  RawClient silent(coordinator.endpoint());
  ASSERT_TRUE(silent.prove(options.secret, {MemberRole::kRank, 1, 0, "run"}));
  ASSERT_TRUE(silent.send_message(JoinRequest{2, 0, 1, 2, 4711, "n07", "m"}));
  const std::unique_ptr<Member> member = Member::join(member_options(coordinator, options, 0));
  ASSERT_TRUE(eventually([&] { return member->failure().has_value(); }));
  EXPECT_EQ(member->failure()->rank, 1);
  EXPECT_EQ(member->failure()->code, ErrorCode::kHang);
  EXPECT_NE(member->failure()->reason.find("n07"), std::string::npos);
  EXPECT_TRUE(eventually([&] { return verdicts == 1; }));
  EXPECT_EQ(verdict.culprits, std::vector<int>{1});
}

// A rank that waits in the rendezvous itself names the ranks that have not come.
TEST(Coordinator, WhoDoesNotComeToAnExchangeHangs) {
  CoordinatorOptions options = coordinator_options(unix_endpoint(), 3);
  options.limits.still = milliseconds(1500);
  const Coordinator coordinator(options);
  auto members = join_all(coordinator, options);
  run_all(3, [&](int rank) {
    Member& member = *members[static_cast<std::size_t>(rank)];
    if (rank != 1) {
      const auto [code, text] = error_of([&] { member.gather(""); });
      EXPECT_EQ(code, 124) << text;
      EXPECT_NE(text.find("rank 1"), std::string::npos) << text;
    }
  });
  ASSERT_TRUE(eventually([&] { return members[1]->failure().has_value(); }));
  EXPECT_EQ(members[1]->failure()->rank, 1);
}

TEST(Coordinator, FramesThatAreNotASessionsEndIt) {
  const CoordinatorOptions options = coordinator_options(unix_endpoint(), 2);
  const Coordinator coordinator(options);
  RawClient client(coordinator.endpoint());
  ASSERT_TRUE(client.prove(options.secret, {MemberRole::kRank, 1, 0, "run"}));
  ASSERT_TRUE(client.send_message(JoinRequest{2, 0, 1, 2, 4711, "n07", "m"}));
  const std::unique_ptr<Member> member = Member::join(member_options(coordinator, options, 0));
  client.send(FrameSealer(Key()).seal_all(encode(Goodbye{})));
  ASSERT_TRUE(eventually([&] { return member->failure().has_value(); }));
  EXPECT_EQ(member->failure()->rank, 1);
  EXPECT_NE(member->failure()->reason.find("wrong MAC"), std::string::npos)
      << member->failure()->reason;
}

TEST(Coordinator, BeginsAttempts) {
  CoordinatorOptions options = coordinator_options(unix_endpoint(), 2);
  Coordinator* restarted = nullptr;
  std::atomic<int> verdicts = 0;
  // A launcher may call it in on_verdict.
  options.on_verdict = [&](const Verdict&) { restarted->begin_attempt(++verdicts, 2); };
  Coordinator coordinator(options);
  restarted = &coordinator;
  for (int attempt = 0; attempt < 3; ++attempt) {
    options.epoch = attempt;
    auto members = join_all(coordinator, options);
    run_all(2, [&](int rank) {
      EXPECT_EQ(members[static_cast<std::size_t>(rank)]->gather("").size(), 2U);
    });
  }
}

TEST(Coordinator, RanksOfANewAttemptMayComeTooEarly) {
  CoordinatorOptions options = coordinator_options(unix_endpoint(), 2);
  options.world_size = 0;
  Coordinator coordinator(options);
  options.world_size = 2;
  options.epoch = 5;
  std::jthread launcher([&] {
    std::this_thread::sleep_for(milliseconds(100));
    coordinator.begin_attempt(5, 2);
  });
  auto members = join_all(coordinator, options);
  leave_all(members);
}

TEST(Coordinator, LaunchersMeetBesideTheRanks) {
  CoordinatorOptions options = coordinator_options(unix_endpoint(), 2);
  options.launchers = 2;
  std::mutex mutex;
  std::vector<std::string> reasons;
  options.on_verdict = [&](const Verdict& verdict) {
    const std::lock_guard lock(mutex);
    reasons.push_back(verdict.reason);
  };
  Coordinator coordinator(options);
  std::atomic<int> heard = 0;
  auto launchers = join_all(coordinator, options, [&](MemberOptions& launcher) {
    launcher.role = MemberRole::kLauncher;
    launcher.environment.node = launcher.environment.rank;
    launcher.on_rank_failure = [&](const RankFailure& failure) { heard += 1 + failure.rank; };
  });
  auto ranks = join_all(coordinator, options);
  run_all(2, [&](int node) {
    EXPECT_EQ(launchers[static_cast<std::size_t>(node)]->gather(std::to_string(node)),
              (std::vector<std::string>{"0", "1"}));
  });
  // A launcher reports a rank's end; the launchers are told, and do not fail because of it.
  ranks[1].reset();
  coordinator.rank_ended(1, "killed by signal 9 (SIGKILL)");
  ASSERT_TRUE(eventually([&] { return heard == 4; }));
  ASSERT_TRUE(eventually([&] { return ranks[0]->failure().has_value(); }));
  EXPECT_NE(ranks[0]->failure()->reason.find("killed by signal 9 (SIGKILL)"), std::string::npos)
      << ranks[0]->failure()->reason;
  EXPECT_FALSE(launchers[0]->failure());
  ranks.clear();

  coordinator.begin_attempt(1, 2);
  options.epoch = 1;
  ranks = join_all(coordinator, options, [](MemberOptions& of_rank) {
    of_rank.environment.node = of_rank.environment.rank;
  });
  launchers[1].reset();
  ASSERT_TRUE(eventually([&] { return launchers[0]->failure().has_value(); }));
  EXPECT_EQ(launchers[0]->failure()->rank, 1);
  ASSERT_TRUE(eventually([&] { return ranks[0]->failure().has_value(); }));
  EXPECT_EQ(ranks[0]->failure()->rank, 1);
  EXPECT_NE(ranks[0]->failure()->reason.find("its launcher is gone"), std::string::npos)
      << ranks[0]->failure()->reason;
}

TEST(Coordinator, ARankThatEndsBeforeItJoinedIsNotWaitedFor) {
  const CoordinatorOptions options = coordinator_options(unix_endpoint(), 2);
  Coordinator coordinator(options);
  std::jthread launcher([&] {
    std::this_thread::sleep_for(milliseconds(100));
    coordinator.rank_ended(1, "exit 64");
  });
  const auto [code, text] = join_errors({member_options(coordinator, options, 0)})[0];
  EXPECT_EQ(code, 75);
  EXPECT_EQ(text, "rank 1 is gone before all had joined: exit 64");
}

TEST(Coordinator, ThatEndsEarlyTellsThoseWhoWait) {
  const CoordinatorOptions options = coordinator_options(unix_endpoint(), 2);
  auto coordinator = std::make_unique<Coordinator>(options);
  const MemberOptions of_rank = member_options(*coordinator, options, 1);
  std::jthread host([&] {
    std::this_thread::sleep_for(milliseconds(200));
    coordinator.reset();
  });
  const auto [code, text] = join_errors({of_rank})[0];
  EXPECT_EQ(code, 75);
  EXPECT_NE(text.find("where all meet, has ended before all had joined"), std::string::npos)
      << text;
}

// ---- where it listens

TEST(Coordinator, NamesWhoHoldsItsPort) {
  for (const Endpoint& endpoint : {unix_endpoint(), tcp_endpoint("127.0.0.1")}) {
    CoordinatorOptions options = coordinator_options(endpoint, 1);
    const Coordinator coordinator(options);
    options.endpoint = coordinator.endpoint();
    const auto [code, text] = error_of([&] { const Coordinator second(options); });
    EXPECT_EQ(code, 69);
    EXPECT_NE(text.find(fmt::format("is taken by pid {} (", ::getpid())), std::string::npos)
        << text;
  }
}

TEST(Coordinator, ListensOnOwnAddressesAlone) {
  CoordinatorOptions options = coordinator_options(tcp_endpoint("192.0.2.1"), 1);
  const auto [code, text] = error_of([&] { const Coordinator coordinator(options); });
  EXPECT_EQ(code, 78);
  EXPECT_NE(text.find("192.0.2.1 is not an address of this host"), std::string::npos) << text;
  options.endpoint.host = "no-such-host.invalid";
  EXPECT_EQ(error_of([&] { const Coordinator coordinator(options); }).first, 69);
  // On all interfaces if asked; the host's name is then only for the members.
  options.endpoint.host = "192.0.2.1";
  options.bind_any = true;
  const Coordinator coordinator(options);
  MemberOptions of_rank = member_options(coordinator, options, 0);
  of_rank.environment.endpoint.host = "127.0.0.1";
  EXPECT_EQ(error_of([&] { Member::join(of_rank)->leave(); }).first, 0);
}

TEST(Coordinator, ListensOnTheAddressesOfAName) {
  const CoordinatorOptions options = coordinator_options(tcp_endpoint("localhost"), 1);
  const Coordinator coordinator(options);
  MemberOptions of_rank = member_options(coordinator, options, 0);
  of_rank.environment.endpoint.host = "127.0.0.1";
  EXPECT_EQ(error_of([&] { Member::join(of_rank)->leave(); }).first, 0);
}

// ---- who does not belong

// Joins all ranks during `attack`; how long the joining took.
Clock::duration join_under(const CoordinatorOptions& options, const Coordinator& coordinator) {
  const Clock::time_point begin = Clock::now();
  auto members = join_all(coordinator, options);
  const Clock::duration time = Clock::now() - begin;
  leave_all(members);
  return time;
}

TEST(Coordinator, IdleConnectionsDelayNobody) {
  for (const Endpoint& endpoint : {unix_endpoint(), tcp_endpoint("127.0.0.1")}) {
    const CoordinatorOptions options = coordinator_options(endpoint, 4);
    const Coordinator coordinator(options);
    std::vector<std::unique_ptr<RawClient>> idle;
    for (int client = 0; client < 100; ++client) {
      idle.push_back(std::make_unique<RawClient>(coordinator.endpoint()));
      ASSERT_TRUE(idle.back()->connected());
    }
    EXPECT_LT(join_under(options, coordinator), seconds(10));
  }
}

TEST(Coordinator, SlowHellosDelayNobody) {
  const CoordinatorOptions options = coordinator_options(tcp_endpoint("127.0.0.1"), 4);
  const Coordinator coordinator(options);
  const std::jthread loris([&](const std::stop_token& over) {
    std::vector<std::unique_ptr<RawClient>> slow;
    for (int client = 0; client < 100; ++client) {
      slow.push_back(std::make_unique<RawClient>(coordinator.endpoint()));
    }
    const ClientHandshake handshake(options.secret, {MemberRole::kRank, 0, 0, "run"});
    for (std::size_t at = 0; at < handshake.start().size() && !over.stop_requested(); ++at) {
      for (const auto& client : slow) client->send(handshake.start().substr(at, 1));
      std::this_thread::sleep_for(milliseconds(50));
    }
  });
  EXPECT_LT(join_under(options, coordinator), seconds(10));
}

TEST(Coordinator, ForgedHellosLetNobodyInAndDelayNobody) {
  const CoordinatorOptions options = coordinator_options(tcp_endpoint("127.0.0.1"), 4);
  const Coordinator coordinator(options);
  std::atomic<int> tried = 0;
  std::atomic<int> taken = 0;
  const std::jthread attacker([&](const std::stop_token& over) {
    const Secret wrong = make_secret();
    while (!over.stop_requested()) {
      RawClient client(coordinator.endpoint());
      if (client.prove(wrong, {MemberRole::kRank, 0, 0, "run"})) ++taken;
      ++tried;
    }
  });
  // Until it is refused because of its failures.
  ASSERT_TRUE(eventually([&] { return tried > 500; }));
  const Clock::duration time = join_under(options, coordinator);
  EXPECT_LT(time, seconds(10));
  EXPECT_EQ(taken, 0);
  RecordProperty("joined_after_ms", static_cast<int>(time / milliseconds(1)));
}

// An endless hello is cut off at 256 bytes, a frame of a gigabyte by its length.
TEST(Coordinator, TakesNoMoreThanAHello) {
  const CoordinatorOptions options = coordinator_options(unix_endpoint(), 1);
  const Coordinator coordinator(options);
  RawClient endless(coordinator.endpoint());
  endless.send(ClientHandshake(options.secret, {MemberRole::kRank, 0, 0, "run"}).start() +
               std::string(1000, 'x'));
  EXPECT_EQ(endless.receive(), "");
  RawClient proven(coordinator.endpoint());
  ASSERT_TRUE(proven.prove(options.secret, {MemberRole::kRank, 0, 0, "run"}));
  proven.send(std::string("\x00\x00\x00\x40\x00\x00\x00\x00\x00\x00\x00\x00", 12));
  EXPECT_EQ(proven.receive(), "");
}

}  // namespace
}  // namespace phalanx::rendezvous
