// Hosts on a network that can be cut, swallowed and slowed down: network namespaces of one machine,
// joined by veth pairs and a bridge.

#include <functional>
#include <thread>

#include "processes_test.h"

namespace phalanx::processes {
namespace {

// Of launchers that are told none.
constexpr int kMasterPort = 29500;
// Between hosts, where no flag says otherwise.
constexpr auto kSilence = 60s;

class AcrossHosts : public ProcessesTest {
 protected:
  void SetUp() override {
    if (!has_own_machine()) GTEST_SKIP() << "needs CAP_NET_ADMIN and CAP_SYS_ADMIN";
    prepare();
    write("secret", "an opaque key of this test");
    std::filesystem::permissions(directory_ / "secret", std::filesystem::perms::owner_read);
  }
  // A launcher on each host, a rank each.
  std::vector<ChildProcess> launch_on(const Hosts& hosts, int count, const std::string& flags,
                                      const std::string& address = Hosts::address(0)) const {
    std::vector<ChildProcess> launchers;
    for (int host = 0; host < count; ++host) {
      launchers.push_back(launch(
          fmt::format("launch_{}", host),
          fmt::format("--nproc-per-node 1 --nnodes {} --node-rank {} --master-addr {} "
                      "--rdzv-secret-file secret --log-dir logs_{}",
                      count, host, address, host),
          fmt::format("{} --silence-timeout-s {}", flags, silence_seconds_), hosts.process(host)));
    }
    return launchers;
  }
  // Starts an endless run and waits until it trains.
  std::vector<ChildProcess> train_on(const Hosts& hosts, int count,
                                     const std::string& flags = "") const {
    std::vector<ChildProcess> launchers =
        launch_on(hosts, count, endless() + "--save run " + flags);
    EXPECT_TRUE(has_begun("run")) << launchers[0].err() << launchers[1].err();
    return launchers;
  }
  void expect_all_end(std::vector<ChildProcess>& launchers, int status) const {
    for (ChildProcess& launcher : launchers) expect_end(launcher, status);
    expect_clean("run");
  }
  // Waits for iterations after `before`.
  void expect_iterations(const std::vector<ChildProcess>& launchers, int before) const {
    EXPECT_TRUE(eventually(kLimit, [&] { return iterations("run") > before; }))
        << launchers[0].err() << launchers[1].err();
  }
  // The run has the results of the same run on threads.
  void expect_results_of_threads(const Hosts& hosts, int count, const std::string& flags,
                                 const std::string& address) const {
    ASSERT_EQ(run(fmt::format("pretrain gpt {} --nproc {} --save threads --save-interval 100",
                              flags, count))
                  .status,
              0);
    std::vector<ChildProcess> launchers =
        launch_on(hosts, count, flags + "--save run --save-interval 100", address);
    expect_all_end(launchers, 0);
    EXPECT_EQ(results("run"), results("threads"));
  }
  void expect_lost(std::vector<ChildProcess>& launchers) const {
    for (ChildProcess& launcher : launchers) {
      launcher.wait(kSilence);
      expect_end(launcher, 75);
    }
  }
  // Both sides end; who still hears of all says whom it has lost.
  void expect_cut_by(const std::function<void(const Hosts&)>& cut) const {
    const Hosts hosts(2);
    std::vector<ChildProcess> launchers = train_on(hosts, 2);
    cut(hosts);
    expect_lost(launchers);
    const Json json = summary("logs_0");
    EXPECT_EQ(json.value("exit", -1), 75) << json;
    ASSERT_TRUE(json["culprit"].is_object()) << json << launchers[0].err();
    EXPECT_EQ(json["culprit"].value("rank", -1), 1) << json;
    EXPECT_EQ(json["culprit"].value("reason", ""), "lost") << json;
    expect_clean("run");
  }

  // Longer than the kernel needs to find that a connection is cut.
  int silence_seconds_ = 5;
};

TEST_F(AcrossHosts, TwoTrainAsThreadsDo) {
  expect_results_of_threads(Hosts(2), 2, model(), Hosts::address(0));
}

TEST_F(AcrossHosts, ThreeTrainByIPv6) {
  expect_results_of_threads(Hosts(3), 3, model() + "--global-batch-size 6 ", Hosts::address6(0));
}

// Ranks of one machine in two network namespaces are on two hosts: no shared memory, sockets.
TEST_F(AcrossHosts, WhatListensDoesSoOnTheCableAlone) {
  const Hosts hosts(2);
  std::vector<ChildProcess> launchers = train_on(hosts, 2);
  for (int host = 0; host < 2; ++host) {
    // 10.11.12.x, backwards.
    const std::string address = fmt::format("{:02X}0C0B0A:", host + 1);
    std::istringstream lines(listening_tcp_sockets(hosts.process(host)));
    int count = 0;
    for (std::string line; std::getline(lines, line); ++count) {
      EXPECT_THAT(line, HasSubstr(address));
    }
    EXPECT_GE(count, 1);
  }
  launchers[1].signal(SIGTERM);
  expect_all_end(launchers, 85);
}

TEST_F(AcrossHosts, ALinkThatGoesDownIsACut) {
  expect_cut_by([](const Hosts& hosts) { hosts.link_down(1); });
}

TEST_F(AcrossHosts, ANetworkThatSwallowsEverythingIsACut) {
  expect_cut_by([](const Hosts& hosts) { hosts.swallow(1); });
}

TEST_F(AcrossHosts, ALinkThatIsHalfOpenIsACut) {
  expect_cut_by([](const Hosts& hosts) { hosts.lose_one_direction(1, 0); });
}

// One of three: the other two name it.
TEST_F(AcrossHosts, TheHostThatIsCutOffIsNamed) {
  const Hosts hosts(3);
  std::vector<ChildProcess> launchers = train_on(hosts, 3, "--global-batch-size 6");
  hosts.swallow(2);
  expect_lost(launchers);
  const Json json = summary("logs_0");
  ASSERT_TRUE(json["culprit"].is_object()) << json << launchers[0].err();
  EXPECT_EQ(json["culprit"].value("rank", -1), 2) << json;
  EXPECT_THAT(launchers[1].err(), HasSubstr("rank 2"));
  expect_clean("run");
}

TEST_F(AcrossHosts, ALinkThatFlapsIsEndured) {
  const Hosts hosts(2);
  std::vector<ChildProcess> launchers = train_on(hosts, 2);
  for (int i = 0; i < 2; ++i) {
    hosts.swallow(1);
    std::this_thread::sleep_for(1s);
    hosts.let_through(1);
    std::this_thread::sleep_for(3s);
    const int before = iterations("run");
    expect_iterations(launchers, before);
  }
  launchers[0].signal(SIGTERM);
  expect_all_end(launchers, 85);
}

// For longer than anything that lives takes to answer.
TEST_F(AcrossHosts, ALinkThatIsDownForFourSecondsIsEndured) {
  const Hosts hosts(2);
  silence_seconds_ = 30;
  std::vector<ChildProcess> launchers = train_on(hosts, 2, "--hang-timeout-s 30");
  hosts.link_down(1);
  std::this_thread::sleep_for(4s);
  hosts.link_up(1);
  const int before = iterations("run");
  expect_iterations(launchers, before);
  launchers[0].signal(SIGTERM);
  expect_all_end(launchers, 85);
}

// Of ranks and launchers, at both ends: nothing is lost, and nobody is missed.
TEST_F(AcrossHosts, ControlConnectionsThatAreResetComeBack) {
  const Hosts hosts(2);
  std::vector<ChildProcess> launchers = train_on(hosts, 2);
  for (int i = 0; i < 3; ++i) {
    if (!hosts.reset_control(i % 2, kMasterPort))
      GTEST_SKIP() << "the kernel resets no connections";
    const int before = iterations("run");
    std::this_thread::sleep_for(1500ms);
    expect_iterations(launchers, before);
  }
  launchers[1].signal(SIGTERM);
  expect_all_end(launchers, 85);
  EXPECT_THAT(launchers[0].err(), HasSubstr("rank 1 (host "));
  EXPECT_THAT(launchers[0].err(), HasSubstr(" is back: its connection "));
}

// The payload's cannot: what was on the way is lost.
TEST_F(AcrossHosts, APayloadConnectionThatIsResetEndsTheAttempt) {
  const Hosts hosts(2);
  std::vector<ChildProcess> launchers = train_on(hosts, 2);
  if (!hosts.reset_payload(1, kMasterPort)) GTEST_SKIP() << "the kernel resets no connections";
  expect_all_end(launchers, 75);
}

TEST_F(AcrossHosts, ASlowLinkIsNoFault) {
  const Hosts hosts(2);
  hosts.slow_down(1, "10mbit");
  std::vector<ChildProcess> launchers =
      launch_on(hosts, 2, model() + "--save run --save-interval 100");
  expect_all_end(launchers, 0);
  EXPECT_EQ(metrics("run").size(), 8U);
}

}  // namespace
}  // namespace phalanx::processes
