#include "phalanx/rendezvous/member.h"

#include <gtest/gtest.h>

#include <atomic>

#include "phalanx/rendezvous/rendezvous_test_support.h"

namespace phalanx::rendezvous {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class OverEach : public testing::TestWithParam<const char*> {
 protected:
  static Endpoint endpoint() {
    const std::string kind = GetParam();
    if (kind == "unix") return unix_endpoint();
    return tcp_endpoint(kind == "ipv6" ? "::1" : "127.0.0.1");
  }
};
INSTANTIATE_TEST_SUITE_P(Rendezvous, OverEach, testing::Values("unix", "ipv4", "ipv6"),
                         [](const auto& each) { return std::string(each.param); });

TEST_P(OverEach, MembersJoinExchangeTextsAndLeave) {
  const CoordinatorOptions options = coordinator_options(endpoint(), 4);
  const Coordinator coordinator(options);
  std::vector<std::unique_ptr<Member>> members = join_all(coordinator, options);
  const std::string large(kLongestBroadcast, 'x');
  run_all(4, [&](int rank) {
    Member& member = *members[static_cast<std::size_t>(rank)];
    ASSERT_EQ(member.places().size(), 4U);
    const RankPlace& place = member.places()[static_cast<std::size_t>(rank)];
    EXPECT_EQ(place.rank, rank);
    EXPECT_EQ(place.host, 0);
    EXPECT_EQ(place.local_rank, rank);
    EXPECT_EQ(place.local_size, 4);
    EXPECT_EQ(member.network_device(), "");
    for (int round = 0; round < 20; ++round) {
      const std::vector<std::string> texts =
          member.gather(std::string(1, '\xff') + std::to_string(rank * round));
      ASSERT_EQ(texts.size(), 4U);
      for (int other = 0; other < 4; ++other) {
        EXPECT_EQ(texts[static_cast<std::size_t>(other)], "\xff" + std::to_string(other * round));
      }
      EXPECT_EQ(member.broadcast(rank == 0 ? std::to_string(round) : "mine"),
                std::to_string(round));
    }
    EXPECT_EQ(member.broadcast(large), large);
    const std::string longest(kLongestGathered, static_cast<char>('a' + rank));
    EXPECT_EQ(member.gather(longest)[2], std::string(kLongestGathered, 'c'));
  });
  leave_all(members);
}

TEST_P(OverEach, AFailureIsToldToAll) {
  const CoordinatorOptions options = coordinator_options(endpoint(), 3);
  const Coordinator coordinator(options);
  std::vector<std::unique_ptr<Member>> members = join_all(coordinator, options);
  std::atomic<int> woken = 0;
  for (const auto& member : members) member->on_failure([&] { ++woken; });
  members[1]->fail("the loss is not a number");
  for (const auto& member : members) {
    ASSERT_TRUE(eventually([&] { return member->failure().has_value(); }));
    EXPECT_EQ(member->failure()->rank, 1);
    EXPECT_EQ(member->failure()->code, ErrorCode::kTemporary);
    EXPECT_NE(member->failure()->reason.find("the loss is not a number"), std::string::npos);
    EXPECT_EQ(error_of([&] { member->gather(""); }).first, 75);
  }
  EXPECT_TRUE(eventually([&] { return woken == 3; }));
  // A function that is set late is called at once; the old one is not called again.
  members[0]->on_failure([&] { woken += 100; });
  EXPECT_EQ(woken, 103);
  members[0]->on_failure(nullptr);
}

TEST_P(OverEach, ACutConnectionIsToldToAll) {
  const CoordinatorOptions options = coordinator_options(endpoint(), 3);
  const Coordinator coordinator(options);
  std::vector<std::unique_ptr<Member>> members = join_all(coordinator, options);
  members[2].reset();
  for (const int rank : {0, 1}) {
    const Member& member = *members[static_cast<std::size_t>(rank)];
    ASSERT_TRUE(eventually([&] { return member.failure().has_value(); }));
    EXPECT_EQ(member.failure()->rank, 2);
    EXPECT_EQ(member.failure()->code, ErrorCode::kTemporary);
    EXPECT_NE(member.failure()->reason.find("its connection was closed"), std::string::npos)
        << member.failure()->reason;
  }
}

TEST_P(OverEach, AWaitForTextsEndsWithTheFailureOfARank) {
  const CoordinatorOptions options = coordinator_options(endpoint(), 3);
  const Coordinator coordinator(options);
  std::vector<std::unique_ptr<Member>> members = join_all(coordinator, options);
  run_all(3, [&](int rank) {
    auto& member = members[static_cast<std::size_t>(rank)];
    if (rank == 2) return member.reset();
    const auto [code, text] = error_of([&] { member->gather("mine"); });
    EXPECT_EQ(code, 75);
    EXPECT_NE(text.find("rank 2"), std::string::npos) << text;
  });
}

TEST_P(OverEach, WhoLeavesIsMissedByNobody) {
  const CoordinatorOptions options = coordinator_options(endpoint(), 3);
  const Coordinator coordinator(options);
  std::vector<std::unique_ptr<Member>> members = join_all(coordinator, options);
  members[1]->leave();
  members[1]->leave();
  members[1].reset();
  members[0]->leave();
  members[0].reset();
  std::this_thread::sleep_for(milliseconds(300));
  EXPECT_FALSE(members[2]->failure());
  members[2]->leave();
  EXPECT_FALSE(members[2]->failure());
}

// After a failure the coordinator waits for no member, and the socket's name is free at once.
TEST_P(OverEach, ACoordinatorMayComeAgain) {
  CoordinatorOptions options = coordinator_options(endpoint(), 2);
  for (int time = 0; time < 3; ++time) {
    const Coordinator coordinator(options);
    options.endpoint = coordinator.endpoint();
    std::vector<std::unique_ptr<Member>> members = join_all(coordinator, options);
    members[0]->leave();
    members[1]->fail("no more");
    ASSERT_TRUE(eventually([&] { return members[1]->failure().has_value(); }));
    EXPECT_EQ(members[1]->failure()->rank, 1);
  }
}

TEST(Member, HearsThatTheCoordinatorIsGone) {
  CoordinatorOptions options = coordinator_options(unix_endpoint(), 2);
  options.farewell = milliseconds(100);
  auto coordinator = std::make_unique<Coordinator>(options);
  std::vector<std::unique_ptr<Member>> members = join_all(*coordinator, options);
  coordinator.reset();
  ASSERT_TRUE(eventually([&] { return members[1]->failure().has_value(); }));
  EXPECT_EQ(members[1]->failure()->rank, 0);
  EXPECT_EQ(members[1]->failure()->code, ErrorCode::kTemporary);
  EXPECT_TRUE(members[1]->failure()->reason.starts_with("rank 0 (host "))
      << members[1]->failure()->reason;
  EXPECT_EQ(error_of([&] { members[1]->gather(""); }).first, 75);
}

// A coordinator that accepts one member and is then silent.
class SilentCoordinator {
 public:
  explicit SilentCoordinator(const Secret& secret) : secret_(secret), endpoint_(unix_endpoint()) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, endpoint_.name.data(), endpoint_.name.size());
    listener_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const auto size =
        static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + endpoint_.name.size());
    ::bind(listener_, reinterpret_cast<sockaddr*>(&address), size);
    ::listen(listener_, 8);
    thread_ = std::jthread([this] { serve(); });
  }
  SilentCoordinator(const SilentCoordinator&) = delete;
  SilentCoordinator& operator=(const SilentCoordinator&) = delete;
  ~SilentCoordinator() {
    thread_.join();
    ::close(socket_);
    ::close(listener_);
  }
  const Endpoint& endpoint() const { return endpoint_; }

 private:
  std::string receive() const {
    std::string bytes(65536, '\0');
    bytes.resize(static_cast<std::size_t>(
        std::max<ssize_t>(0, ::recv(socket_, bytes.data(), bytes.size(), 0))));
    return bytes;
  }
  void send(const std::string& bytes) const {
    ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  void serve() {
    socket_ = ::accept(listener_, nullptr, nullptr);
    ServerHandshake handshake(secret_);
    while (handshake.state() == HandshakeState::kPending) send(handshake.receive(receive()));
    FrameSealer sealer(handshake.keys().of_server);
    receive();  // the request to join
    send(sealer.seal_all(
        encode(Welcome{"rank 0 (host n01, pid 1)", 0, PlaceList({{0, 1, 0, 0, 1, "n01"}})})));
  }

  const Secret& secret_;
  Endpoint endpoint_;
  int listener_ = -1;
  int socket_ = -1;
  std::jthread thread_{};
};

TEST(Member, TakesASilentCoordinatorForOneThatHangs) {
  CoordinatorOptions options = coordinator_options(unix_endpoint(), 1);
  const SilentCoordinator coordinator(options.secret);
  MemberOptions of_rank;
  of_rank.environment.run_id = "run";
  of_rank.environment.endpoint = coordinator.endpoint();
  of_rank.secret = options.secret;
  of_rank.silence_limit = 0.3;
  of_rank.grace = milliseconds(200);
  std::atomic<int> stuck = 0;
  of_rank.on_stuck = [&](const RankFailure& failure) {
    EXPECT_EQ(failure.code, ErrorCode::kHang);
    ++stuck;
  };
  const std::unique_ptr<Member> member = Member::join(of_rank);
  ASSERT_TRUE(eventually([&] { return member->failure().has_value(); }));
  EXPECT_EQ(member->failure()->code, ErrorCode::kHang);
  EXPECT_TRUE(member->failure()->reason.starts_with(
      "rank 0 (host n01, pid 1), where all meet, hangs: it has said nothing for"))
      << member->failure()->reason;
  EXPECT_TRUE(eventually([&] { return stuck == 1; }));
  std::this_thread::sleep_for(milliseconds(300));
  EXPECT_EQ(stuck, 1);
}

TEST(Member, WhoIsBusyIsKnownToAll) {
  const CoordinatorOptions options = coordinator_options(unix_endpoint(), 2);
  const Coordinator coordinator(options);
  std::vector<std::unique_ptr<Member>> members = join_all(coordinator, options);
  EXPECT_EQ(members[1]->busy_ranks(), "");
  members[0]->begin_busy("saving the checkpoint of iteration 100");
  EXPECT_TRUE(eventually([&] {
    return members[1]->busy_ranks().find("saving the checkpoint of iteration 100") !=
           std::string::npos;
  }));
  members[0]->end_busy();
  EXPECT_TRUE(eventually([&] { return members[1]->busy_ranks().empty(); }));
  leave_all(members);
}

TEST(Member, SaysWhereItCannotGo) {
  MemberOptions options;
  options.environment.endpoint = unix_endpoint();
  options.join_timeout = milliseconds(200);
  int polls = 0;
  options.poll = [&] { ++polls; };
  const auto [code, text] = error_of([&] { Member::join(options); });
  EXPECT_EQ(code, 69);
  EXPECT_EQ(text, "the coordinator at " + options.environment.endpoint.to_text() +
                      " cannot be reached within 0.2 s: Connection refused; rank 0 or the first "
                      "launcher listens there (MASTER_ADDR, MASTER_PORT)");
  EXPECT_GT(polls, 0);
  // An exception of `poll` ends the joining.
  options.join_timeout = seconds(30);
  options.poll = [] { throw Error(ErrorCode::kPreempted, "a signal"); };
  EXPECT_EQ(error_of([&] { Member::join(options); }).first, 85);
}

TEST(Member, SaysThatANameCannotBeResolved) {
  MemberOptions options;
  options.environment.endpoint = tcp_endpoint("no-such-host.invalid");
  options.environment.endpoint.port = 29500;
  options.join_timeout = milliseconds(300);
  const auto [code, text] = error_of([&] { Member::join(options); });
  EXPECT_EQ(code, 69);
  EXPECT_NE(text.find("no-such-host.invalid"), std::string::npos) << text;
}

TEST(Member, KnowsWhatIsNoRendezvous) {
  const Endpoint endpoint = unix_endpoint();
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, endpoint.name.data(), endpoint.name.size());
  const int listener = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const auto size =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + endpoint.name.size());
  ASSERT_EQ(::bind(listener, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(::listen(listener, 8), 0);
  const std::jthread server([&] {
    const int socket = ::accept(listener, nullptr, nullptr);
    const std::string_view answer = "HTTP/1.1 400 Bad Request\r\n\r\n";
    ::send(socket, answer.data(), answer.size(), MSG_NOSIGNAL);
    ::close(socket);
  });
  MemberOptions options;
  options.environment.endpoint = endpoint;
  options.join_timeout = seconds(30);
  const auto [code, text] = error_of([&] { Member::join(options); });
  ::close(listener);
  EXPECT_EQ(code, 69);
  EXPECT_NE(text.find("is no rendezvous of phalanx"), std::string::npos) << text;
}

// Every call from several threads at once: for ThreadSanitizer.
TEST(Member, MayBeUsedFromManyThreads) {
  const CoordinatorOptions options = coordinator_options(unix_endpoint(), 2);
  const Coordinator coordinator(options);
  std::vector<std::unique_ptr<Member>> members = join_all(coordinator, options);
  run_all(6, [&](int thread) {
    Member& member = *members[static_cast<std::size_t>(thread % 2)];
    for (int round = 0; round < 200; ++round) {
      member.tick();
      member.begin_wait({0, "tp", "all_reduce", round}, {0, 1});
      member.waited(milliseconds(1));
      member.end_wait();
      member.begin_busy("saving");
      member.step(round);
      member.end_busy();
      member.on_failure([] {});
      EXPECT_FALSE(member.failure());
      member.busy_ranks();
    }
  });
  run_all(2, [&](int rank) {
    Member& member = *members[static_cast<std::size_t>(rank)];
    for (int round = 0; round < 50; ++round) member.gather(std::to_string(rank));
  });
  leave_all(members);
}

}  // namespace
}  // namespace phalanx::rendezvous
