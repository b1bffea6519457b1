// Runs of 100, 1000 and 10,000 members in virtual time: what the coordinator does for them is near
// linear in their number, and its verdicts are right. CPU seconds are printed, not judged.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <ctime>
#include <deque>
#include <iostream>

#include "phalanx/rendezvous/simulated_members_test_support.h"

namespace phalanx::rendezvous::simulated {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kRanksOfHost = 8;
// Of the coordinator for an event: reading, checking, deciding.
constexpr auto kEventCost = microseconds(20);

double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

class SimulatedWorld : public testing::TestWithParam<int> {
 protected:
  static CoordinatorOptions coordinator_options(int ranks) {
    CoordinatorOptions options;
    options.endpoint = {Endpoint::Kind::kTcp, {}, "10.0.0.1", 29500};
    options.secret = make_secret();
    options.run_id = "run";
    options.world_size = ranks;
    options.limits.silence = options.limits.far_silence = seconds(4);
    return options;
  }
  static std::string host_of(int rank) { return fmt::format("gpu{:04}", rank / kRanksOfHost); }

  explicit SimulatedWorld(int ranks = GetParam())
      : ranks_(ranks), options_(coordinator_options(ranks)) {
    options_.on_verdict = [this](const Verdict& verdict) { verdict_ = verdict; };
    begin_world();
  }

  void begin_world() {
    // Events refer to the others, which refer to the agenda.
    agenda_.clear();
    members_.clear();
    network_.reset();
    coordinator_.reset();
    coordinator_.emplace(agenda_, options_, kEventCost);
    network_.emplace(agenda_, *coordinator_, 7);
    for (int rank = 0; rank < ranks_; ++rank) {
      MemberOptions member;
      member.environment.rank = rank;
      member.environment.world_size = ranks_;
      member.environment.node = rank / kRanksOfHost;
      member.environment.local_rank = rank % kRanksOfHost;
      member.environment.local_size = kRanksOfHost;
      member.environment.run_id = "run";
      member.secret = options_.secret;
      members_.push_back(std::make_unique<SimulatedMember>(
          agenda_, *network_, member, has_one_address_ ? "gateway" : host_of(rank)));
    }
  }

  bool all_joined() const {
    // From the last one on, which is welcomed last.
    for (auto member = members_.rbegin(); member != members_.rend(); ++member) {
      if (!(*member)->has_joined()) return false;
    }
    return true;
  }
  // All join within `spread`. Whether they have.
  bool join_all(Duration spread, Duration limit = seconds(60)) {
    for (const auto& member : members_) {
      const auto later = static_cast<std::uint64_t>(spread.count());
      agenda_.after(Duration(static_cast<Duration::rep>(network_->random(later))),
                    [joins = member.get()] { joins->join(); });
    }
    const auto poll = [this, next = Time{}, joined = false]() mutable {
      if (agenda_.now() < next) return joined;
      next = agenda_.now() + milliseconds(10);
      return joined = all_joined();
    };
    return agenda_.run(limit, poll);
  }
  void run(Duration time) {
    agenda_.run(time, [] { return false; });
  }
  std::uint64_t visited() const { return coordinator_->core.ranks()->visited(); }
  void report(const std::string& what, double since) const {
    std::cout << fmt::format("  {} members, {}: {:.2f} s of CPU\n", ranks_, what,
                             cpu_seconds() - since);
  }
  // Whether all living members know this failure.
  bool all_know(int culprit) const {
    return std::all_of(members_.begin(), members_.end(), [&](const auto& member) {
      return member->is_dead() || (member->failure() && member->failure()->rank == culprit);
    });
  }

  int ranks_;
  bool has_one_address_ = false;
  Agenda agenda_{};
  std::optional<Verdict> verdict_{};
  CoordinatorOptions options_;
  std::optional<simulated::Coordinator> coordinator_{};
  std::optional<Network> network_{};
  std::vector<std::unique_ptr<SimulatedMember>> members_{};
};

TEST_P(SimulatedWorld, JoinsStepsLosesConnectionsAndEndsInOrder) {
  const double n = ranks_;
  double begin = cpu_seconds();
  ASSERT_TRUE(join_all(seconds(1)));
  report("joined", begin);
  EXPECT_EQ(members_.back()->places().size(), members_.size());
  const RankPlace place = members_[0]->places()[20];
  EXPECT_EQ(place.host, 2);
  EXPECT_EQ(place.local_rank, 4);
  EXPECT_EQ(place.host_name, "gpu0002");
  EXPECT_LE(visited(), 4 * n * std::log2(n));
  EXPECT_LE(network_->bytes(), 400 * n * std::log2(n));
  EXPECT_EQ(network_->connections(), static_cast<std::uint64_t>(ranks_))
      << "each needs one attempt";

  // Steady state.
  begin = cpu_seconds();
  constexpr int kPeriods = 4;
  const std::uint64_t ticks = coordinator_->ticks();
  const std::uint64_t visited_before = visited();
  const std::uint64_t bytes_before = network_->bytes();
  run(kPeriods * kHeartbeatPeriod);
  report("four periods of heartbeats", begin);
  EXPECT_LE(visited() - visited_before, 8 * n * static_cast<double>(coordinator_->ticks() - ticks));
  EXPECT_LE(network_->bytes() - bytes_before, (kPeriods + 1) * 400 * n);

  // Lost connections are nobody's failure.
  const int step = std::max(1, ranks_ / 20);
  for (int rank = 0; rank < ranks_; rank += step) {
    const bool is_cut = rank / step % 2 == 0;
    members_[static_cast<std::size_t>(rank)]->end()->cut(
        is_cut ? ConnectionEnd::Kind::kCut : ConnectionEnd::Kind::kClosed,
        "it was cut by the test");
  }
  run(seconds(1));
  for (int rank = 0; rank < ranks_; rank += step) {
    EXPECT_EQ(members_[static_cast<std::size_t>(rank)]->reconnections(), 1) << rank;
  }
  EXPECT_FALSE(verdict_) << verdict_->reason;

  // A gathering and its repetition. Each of n members has n texts then, here in one process.
  constexpr int kMostThatGather = 1000;
  for (const std::int64_t round : {0, 1}) {
    if (ranks_ > kMostThatGather) break;
    const std::uint64_t before = network_->bytes();
    for (const auto& member : members_) {
      member->send(RoundPart{round, RoundKind::kGather, member->address()});
    }
    const auto all_have = [&] { return !members_.back()->take_texts().empty(); };
    ASSERT_TRUE(agenda_.run(seconds(5), all_have));
    if (round == 1) {
      EXPECT_LE(network_->bytes() - before, 400 * n) << "no text has changed";
    }
  }
  for (const auto& member : members_) member->say_goodbye();
  coordinator_->core.stop(agenda_.now());
  ASSERT_TRUE(agenda_.run(seconds(5), [&] { return coordinator_->core.may_end(agenda_.now()); }));
  run(milliseconds(100));  // the last confirmations are under way
  EXPECT_FALSE(verdict_);
  for (const auto& member : members_) {
    EXPECT_TRUE(member->is_confirmed());
    EXPECT_FALSE(member->failure());
  }
}

TEST_P(SimulatedWorld, ADeadRankIsNamed) {
  ASSERT_TRUE(join_all(seconds(1)));
  run(seconds(1));
  const double begin = cpu_seconds();
  const std::uint64_t before = visited();
  const std::uint64_t ticks = coordinator_->ticks();
  const int culprit = ranks_ / 2 + 3;
  members_[static_cast<std::size_t>(culprit)]->die();
  ASSERT_TRUE(agenda_.run(seconds(3), [&] { return verdict_.has_value(); }));
  run(milliseconds(200));
  report("a dead rank", begin);
  EXPECT_EQ(verdict_->culprits, std::vector<int>{culprit});
  EXPECT_EQ(verdict_->code, ErrorCode::kTemporary);
  EXPECT_TRUE(all_know(culprit)) << verdict_->reason;
  EXPECT_LE(visited() - before, 8.0 * ranks_ * static_cast<double>(coordinator_->ticks() - ticks));
}

TEST_P(SimulatedWorld, ADeadHostIsNamed) {
  ASSERT_TRUE(join_all(seconds(1)));
  run(seconds(1));
  const double begin = cpu_seconds();
  const int host = ranks_ / kRanksOfHost / 3;
  std::vector<int> culprits;
  for (int rank = host * kRanksOfHost; rank < (host + 1) * kRanksOfHost; ++rank) {
    members_[static_cast<std::size_t>(rank)]->vanish();
    culprits.push_back(rank);
  }
  ASSERT_TRUE(agenda_.run(seconds(6), [&] { return verdict_.has_value(); }));
  run(milliseconds(200));
  report("a dead host", begin);
  std::vector<int> named = verdict_->culprits;
  std::sort(named.begin(), named.end());
  EXPECT_EQ(named, culprits);
  EXPECT_EQ(verdict_->host, host_of(culprits[0]));
  EXPECT_TRUE(verdict_->reason.starts_with("host " + host_of(culprits[0]))) << verdict_->reason;
  EXPECT_TRUE(all_know(verdict_->culprits[0]));
}

// An attacker who opens as many connections as he can.
class Attacker {
 public:
  // How a connection goes on.
  enum class Kind : std::uint8_t { kSilent, kHelloOnly, kWrongProof };

  Attacker(Agenda& agenda, Network& network, std::vector<Kind> kinds)
      : agenda_(agenda), network_(network), kinds_(std::move(kinds)) {}

  void go_on() {
    if (stopped_) return;
    agenda_.after(microseconds(500), [this] { go_on(); });
    network_.dial("attacker", [this](const std::shared_ptr<End>& end) {
      if (end) begin(end);
    });
  }
  void stop() { stopped_ = true; }
  std::size_t connections() const { return connections_.size(); }

 private:
  struct Connection {
    std::shared_ptr<End> end;
    ClientHandshake handshake;
  };

  void begin(const std::shared_ptr<End>& end) {
    const Kind kind = kinds_[network_.random(kinds_.size())];
    connections_.push_back({end, {wrong_, Hello{MemberRole::kRank, 1, 0, "run"}}});
    Connection& own = connections_.back();
    if (kind != Kind::kSilent) end->send_raw(own.handshake.start());
    end->start(
        [&own, kind](std::string_view bytes) {
          const bool is_proving = own.handshake.state() == HandshakeState::kPending;
          if (kind == Kind::kWrongProof && is_proving) {
            own.end->send_raw(own.handshake.receive(bytes));
          }
        },
        [](const ConnectionEnd&) {});
  }

  Agenda& agenda_;
  Network& network_;
  std::vector<Kind> kinds_;
  const Secret wrong_ = make_secret();
  std::deque<Connection> connections_{};
  bool stopped_ = false;
};

// Ranks come at once while an attacker has been there for three seconds.
TEST_P(SimulatedWorld, AnAttackerKeepsNobodyOut) {
  using Kind = Attacker::Kind;
  for (const std::vector<Kind>& kinds :
       {std::vector{Kind::kSilent, Kind::kHelloOnly, Kind::kWrongProof},
        std::vector{Kind::kHelloOnly}, std::vector{Kind::kSilent}}) {
    begin_world();
    const double begin = cpu_seconds();
    Attacker attacker(agenda_, *network_, kinds);
    attacker.go_on();
    run(seconds(3));
    const Time start = agenda_.now();
    EXPECT_TRUE(join_all(milliseconds(50), seconds(60)));
    const double took = std::chrono::duration<double>(agenda_.now() - start).count();
    attacker.stop();
    report(fmt::format("joined in {:.1f} s beside {} connections of an attacker", took,
                       attacker.connections()),
           begin);
    EXPECT_LE(took, 3.0);
    for (const auto& member : members_) {
      EXPECT_TRUE(member->has_joined());
      EXPECT_FALSE(coordinator_->core.gate().is_suspect(member->address(), agenda_.now()));
    }
  }
}

// As behind a gateway, or on one host.
TEST_P(SimulatedWorld, AllMayHaveOneAddress) {
  has_one_address_ = true;
  begin_world();
  EXPECT_TRUE(join_all(milliseconds(50)));
  EXPECT_FALSE(coordinator_->core.gate().is_suspect("gateway", agenda_.now()));
}

// Nobody is late, or suspect, because the coordinator was: it is stopped for longer than a hello
// may take, and than members wait for an answer.
TEST_P(SimulatedWorld, ACoordinatorThatIsStoppedMeanwhileSuspectsNobody) {
  agenda_.after(milliseconds(100), [this] { coordinator_->pause(seconds(6)); });
  EXPECT_TRUE(join_all(milliseconds(300), seconds(60)));
  for (const auto& member : members_) {
    EXPECT_FALSE(coordinator_->core.gate().is_suspect(member->address(), agenda_.now()));
  }
  run(milliseconds(100));
}

// What the coordinator needs for two heartbeats a second of each rank, besides its system calls: it
// opens and reads them, judges, and seals the pings.
TEST(HeartbeatCost, IsPrinted) {
  constexpr int kRanks = 10000;
  constexpr int kPeriods = 4;
  Time now{std::chrono::hours(1)};
  MembersOptions options;
  options.size = kRanks;
  options.over_network = true;
  std::vector<FrameSealer> of_server(kRanks, FrameSealer(Key{}));
  std::uint64_t bytes = 0;
  const auto send = [&](int number, const Members::Bytes& message, bool) {
    bytes += of_server[static_cast<std::size_t>(number)].seal_all(*message).size();
  };
  Members members(options, send, now);
  for (int rank = 0; rank < kRanks; ++rank) {
    members.join(rank, {kRanks, rank / 8, rank % 8, 8, rank, "n", "m"}, now);
  }
  std::vector<FrameSealer> of_member(kRanks, FrameSealer(Key{}));
  std::vector<FrameOpener> openers(kRanks, FrameOpener(Key{}, kLongestOfMember));
  Heartbeat heartbeat;
  heartbeat.silence_limit = 60;
  double spent = 0;
  for (int period = 0; period < kPeriods; ++period) {
    std::vector<std::string> frames;
    for (int rank = 0; rank < kRanks; ++rank) {
      ++heartbeat.ticks;
      heartbeat.wait = std::nullopt;
      if (rank % 2 == 0) {
        heartbeat.wait = Heartbeat::Wait{
            {rank, "data-parallel", "all_reduce(sum, f32 x 1000)", 7}, {rank + 1}, 0.1};
      }
      frames.push_back(of_member[static_cast<std::size_t>(rank)].seal_all(encode(heartbeat)));
    }
    const double begin = cpu_seconds();
    for (int rank = 0; rank < kRanks; ++rank) {
      FrameOpener& opener = openers[static_cast<std::size_t>(rank)];
      opener.feed(frames[static_cast<std::size_t>(rank)]);
      const std::optional<OpenedMessage> opened = opener.next();
      ASSERT_TRUE(opened);
      members.on_message(rank, decode(opened->text), now);
      if (rank % (kRanks / 5) == 0) {
        now += kTickPeriod;
        EXPECT_FALSE(members.judge(now));
      }
    }
    members.ping(now);
    spent += cpu_seconds() - begin;
  }
  std::cout << fmt::format(
      "  {} ranks: {:.3f} s of CPU a second\n", kRanks,
      spent / (kPeriods * std::chrono::duration<double>(kHeartbeatPeriod).count()));
}

std::vector<int> sizes() {
  std::vector<int> sizes = {104, 1000};
  if (std::getenv("PHALANX_NIGHTLY") != nullptr) sizes.push_back(10000);
  return sizes;
}

INSTANTIATE_TEST_SUITE_P(Rendezvous, SimulatedWorld, testing::ValuesIn(sizes()),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace phalanx::rendezvous::simulated
