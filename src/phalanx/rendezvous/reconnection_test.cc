// Control connections that are lost while both ends live: the member reconnects, and no message is
// missing.

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>

#include "phalanx/rendezvous/rendezvous_test_support.h"

namespace phalanx::rendezvous {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

int listening_socket(int& port) {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  EXPECT_EQ(::bind(listener, any, size), 0);
  EXPECT_EQ(::listen(listener, 64), 0);
  EXPECT_EQ(::getsockname(listener, any, &size), 0);
  port = ntohs(address.sin_port);
  return listener;
}

// A network between members and their coordinator, which can break.
class Network {
 public:
  explicit Network(int port) : listener_(listening_socket(port_)), far_port_(port) {
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  }
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;
  ~Network() {
    thread_.request_stop();
    thread_.join();
    for (const auto& [near, far] : cables_) close_both(near, far);
    ::close(listener_);
  }

  Endpoint endpoint() const { return {Endpoint::Kind::kTcp, {}, "127.0.0.1", port_}; }
  // Ends all connections, on both sides.
  void break_connections() {
    const std::lock_guard lock(mutex_);
    for (const auto& [near, far] : cables_) close_both(near, far);
    cables_.clear();
  }
  // Drops all data; connections stay.
  void hold(bool holds) { holds_ = holds; }
  int connections() const { return connections_; }

 private:
  // As after a reset: data under way is lost.
  static void close_both(int near, int far) {
    const linger at_once{1, 0};
    for (const int socket : {near, far}) {
      ::setsockopt(socket, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
      ::close(socket);
    }
  }
  void run(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      {
        const std::lock_guard lock(mutex_);
        if (!holds_) take();
        if (!holds_) carry();
      }
      std::this_thread::sleep_for(milliseconds(1));
    }
  }
  void take() {
    pollfd entry{listener_, POLLIN, 0};
    if (::poll(&entry, 1, 0) <= 0) return;
    const int near = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    const int far = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(far_port_));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(far, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
      return close_both(near, far);
    }
    cables_.emplace_back(near, far);
    ++connections_;
  }
  static bool carry(int from, int to) {
    std::string bytes(65536, '\0');
    const ssize_t size = ::recv(from, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (size < 0) return errno == EAGAIN;
    if (size == 0) return false;
    return ::send(to, bytes.data(), static_cast<std::size_t>(size), MSG_NOSIGNAL) == size;
  }
  void carry() {
    std::erase_if(cables_, [](const auto& cable) {
      const auto [near, far] = cable;
      if (carry(near, far) && carry(far, near)) return false;
      close_both(near, far);
      return true;
    });
  }

  int port_ = 0;
  int listener_;
  int far_port_;
  std::mutex mutex_{};
  std::vector<std::pair<int, int>> cables_{};
  std::atomic<bool> holds_ = false;
  std::atomic<int> connections_ = 0;
  std::jthread thread_{};
};

// Rank 0 beside the coordinator, the others behind the network.
class Resume : public testing::Test {
 protected:
  explicit Resume(int world_size = 3)
      : options_(coordinator_options(tcp_endpoint("127.0.0.1"), world_size)) {}
  void begin() {
    coordinator_ = std::make_unique<Coordinator>(options_);
    network_ = std::make_unique<Network>(coordinator_->endpoint().port);
    members_ = join_all(*coordinator_, options_, [&](MemberOptions& of_rank) {
      if (of_rank.environment.rank > 0) of_rank.environment.endpoint = network_->endpoint();
    });
  }
  void exchange(int rounds) {
    run_all(options_.world_size, [&](int rank) {
      Member& member = *members_[static_cast<std::size_t>(rank)];
      for (int round = 0; round < rounds; ++round, ++said_[static_cast<std::size_t>(rank)]) {
        const int number = said_[static_cast<std::size_t>(rank)];
        const auto texts = member.gather(std::to_string(1000 * rank + number));
        if (rank == 0) ++rounds_;
        for (int other = 0; other < options_.world_size; ++other) {
          ASSERT_EQ(texts[static_cast<std::size_t>(other)], std::to_string(1000 * other + number));
        }
      }
    });
  }

  CoordinatorOptions options_;
  std::unique_ptr<Coordinator> coordinator_{};
  std::unique_ptr<Network> network_{};
  std::vector<std::unique_ptr<Member>> members_{};
  std::atomic<int> rounds_ = 0;
  std::vector<int> said_ = std::vector<int>(16);
};

TEST_F(Resume, NothingIsMissingHoweverOftenConnectionsBreak) {
  begin();
  const std::jthread breaks([&](const std::stop_token& stop) {
    for (int next = 5; !stop.stop_requested(); std::this_thread::sleep_for(milliseconds(1))) {
      if (rounds_ < next) continue;
      network_->break_connections();
      next = rounds_ + 5;
    }
  });
  exchange(200);
  for (const auto& member : members_) EXPECT_FALSE(member->failure());
  EXPECT_GT(network_->connections(), 4);
}

TEST_F(Resume, TextsOfTheMailboxComeThroughBrokenConnections) {
  begin();
  std::atomic<int> posted = 0;
  const std::jthread breaks([&](const std::stop_token& stop) {
    for (int next = 2; !stop.stop_requested(); std::this_thread::sleep_for(milliseconds(1))) {
      if (posted < next) continue;
      network_->break_connections();
      next = posted + 2;
    }
  });
  constexpr int kTexts = 12;
  const std::string half(kLongestMailPart / 2 + 1, 'h');
  run_all(2, [&](int reads) {
    for (int text = 0; text < kTexts; ++text) {
      const std::string name = fmt::format("text/{}", text);
      std::string of_text = half + std::to_string(text) + half;
      if (reads == 0) {
        members_[1]->post(name, std::move(of_text));
        ++posted;
      } else {
        EXPECT_TRUE(members_[2]->read(name) == of_text) << name;
        EXPECT_TRUE(members_[2]->take(name).has_value()) << name;
      }
    }
  });
  for (const auto& member : members_) EXPECT_FALSE(member->failure());
  EXPECT_GT(network_->connections(), 4);
}

TEST_F(Resume, AFailureThatWasSaidMeanwhileIsHeard) {
  begin();
  exchange(1);
  network_->hold(true);
  network_->break_connections();
  const std::jthread failing([&] { members_[0]->fail("the loss is not a number"); });
  std::this_thread::sleep_for(milliseconds(100));
  EXPECT_FALSE(members_[1]->failure());
  network_->hold(false);
  for (const auto& member : members_) {
    ASSERT_TRUE(eventually([&] { return member->failure().has_value(); }));
    EXPECT_EQ(member->failure()->rank, 0);
    EXPECT_NE(member->failure()->reason.find("not a number"), std::string::npos);
  }
}

TEST_F(Resume, AGoodbyeIsSaidAgain) {
  begin();
  exchange(1);
  network_->break_connections();
  leave_all(members_);
  coordinator_.reset();
}

TEST_F(Resume, WhoDoesNotComeBackIsLost) {
  begin();
  exchange(1);
  members_[2].reset();
  for (const int rank : {0, 1}) {
    const Member& member = *members_[static_cast<std::size_t>(rank)];
    ASSERT_TRUE(eventually([&] { return member.failure().has_value(); }));
    EXPECT_EQ(member.failure()->rank, 2);
    EXPECT_EQ(member.failure()->code, ErrorCode::kTemporary);
  }
}

// A network that forgets a connection and accepts another: neither end sees the first one end.
TEST_F(Resume, ANewConnectionIsTriedBesideASilentOne) {
  options_.limits.far_silence = seconds(8);
  begin();
  // Until all know the limit.
  std::this_thread::sleep_for(milliseconds(700));
  exchange(1);
  const int before = network_->connections();
  network_->hold(true);
  // Longer than a quarter of it.
  std::this_thread::sleep_for(milliseconds(2600));
  network_->hold(false);
  EXPECT_TRUE(eventually([&] { return network_->connections() > before; }));
  exchange(5);
  for (const auto& member : members_) EXPECT_FALSE(member->failure());
  leave_all(members_);
}

TEST_F(Resume, APortThatRefusesIsTheEnd) {
  options_.farewell = milliseconds(10);
  begin();
  exchange(1);
  // A member on the same host sees the end of its connection, the others no answer.
  coordinator_.reset();
  ASSERT_TRUE(eventually([&] { return members_[0]->failure().has_value(); }));
  EXPECT_EQ(members_[0]->failure()->rank, 0);
  EXPECT_EQ(members_[0]->failure()->code, ErrorCode::kTemporary);
  EXPECT_NE(members_[0]->failure()->reason.find("its port refuses connections"), std::string::npos)
      << members_[0]->failure()->reason;
}

TEST_F(Resume, WhoHasNotBeenWelcomedComesAgain) {
  const Coordinator coordinator(options_);
  Network network(coordinator.endpoint().port);
  MemberOptions first = member_options(coordinator, options_, 1);
  first.environment.endpoint = network.endpoint();
  std::unique_ptr<Member> joined;
  std::jthread early([&] { joined = Member::join(first); });
  ASSERT_TRUE(eventually([&] { return network.connections() == 1; }));
  std::this_thread::sleep_for(milliseconds(200));
  network.break_connections();
  ASSERT_TRUE(eventually([&] { return network.connections() > 1; }));
  std::vector<std::unique_ptr<Member>> others(3);
  run_all(3, [&](int rank) {
    if (rank == 1) return;
    others[static_cast<std::size_t>(rank)] =
        Member::join(member_options(coordinator, options_, rank));
  });
  early.join();
  ASSERT_TRUE(joined);
  others[1] = std::move(joined);
  leave_all(others);
}

// A process that knows a member's number but not its session's name is another one.
TEST_F(Resume, AStrangerWithARanksNumberIsRefused) {
  begin();
  RawClient stranger(coordinator_->endpoint());
  ASSERT_TRUE(stranger.prove(options_.secret, {MemberRole::kRank, 1, 0, "run"}));
  ASSERT_TRUE(stranger.send_message(JoinRequest{3, 0, 1, 3, 4711, "n07", "m", "made up", 1}));
  const auto answer = stranger.receive_message();
  ASSERT_TRUE(answer);
  ASSERT_TRUE(std::holds_alternative<Refusal>(*answer));
  exchange(2);
  leave_all(members_);
}

}  // namespace
}  // namespace phalanx::rendezvous
