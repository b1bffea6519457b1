// What the other tests look with: it must see what is there.

#include "machine.h"

#include <csignal>

#include "processes_test.h"

namespace phalanx::processes {
namespace {

TEST_F(ProcessesTest, AChildTellsHowItEnded) {
  const auto child = [&](const std::string& script) {
    return ChildProcess({.words = {"sh", "-c", script}, .directory = directory_, .name = "child"});
  };
  ChildProcess exits = child("echo out; echo err >&2; exit 7");
  EXPECT_EQ(exits.wait(kLimit), 7);
  EXPECT_EQ(exits.out(), "out\n");
  EXPECT_EQ(exits.err(), "err\n");
  ChildProcess killed = child("kill -9 $$");
  EXPECT_EQ(killed.wait(kLimit), 128 + SIGKILL);
  ChildProcess runs = child("sleep 1000");
  EXPECT_EQ(runs.wait(10ms), std::nullopt);
  EXPECT_EQ(ChildProcess({.words = {"/no/such/program"}, .directory = directory_, .name = "none"})
                .wait(kLimit),
            127);
}

TEST_F(ProcessesTest, WhatIsLeftIsSeen) {
  EXPECT_EQ(what_is_left(run_mark(), 0ms), "");
  {
    // A rank, its child, and a launcher.
    const std::map<std::string, std::string> rank = {{"PHALANX_TEST_RUN", run_mark()},
                                                     {"RANK", "3"}};
    const ChildProcess shell_of_rank({.words = {"sh", "-c", "sleep 1000; true"},
                                      .directory = directory_,
                                      .name = "rank",
                                      .environment = rank});
    const ChildProcess launcher({.words = {"bash", "launch", "x"},
                                 .directory = directory_,
                                 .name = "launcher",
                                 .environment = rank});
    ASSERT_TRUE(eventually(kLimit, [&] { return processes_of(run_mark()).size() >= 2; }));
    const pid_t found = pid_of_rank(run_mark(), 3);
    EXPECT_NE(found, 0);
    EXPECT_NE(found, launcher.pid());
    EXPECT_EQ(pid_of_rank(run_mark(), 2), 0);
    EXPECT_THAT(what_is_left(run_mark(), 0ms), HasSubstr("sleep 1000"));
    for (const FoundProcess& process : processes_of(run_mark())) ::kill(process.pid, SIGKILL);
  }
  EXPECT_EQ(what_is_left(run_mark()), "");
  if (!has_own_machine()) GTEST_SKIP() << "the rest needs CAP_NET_ADMIN and CAP_SYS_ADMIN";
  shell("touch /dev/shm/something");
  EXPECT_EQ(what_is_left(run_mark(), 0ms), "shared memory: /dev/shm/something\n");
  shell("rm /dev/shm/something");
  EXPECT_EQ(what_is_left(run_mark(), 0ms), "");
}

TEST_F(ProcessesTest, CablesCarryAndAreCut) {
  if (!has_own_machine()) GTEST_SKIP() << "needs CAP_NET_ADMIN and CAP_SYS_ADMIN";
  const Hosts hosts(2);
  const auto arrives = [&](const std::string& address) {
    ChildProcess talker({.words = {"bash", "-c", "exec 3<>/dev/tcp/" + address + "/9"},
                         .directory = directory_,
                         .name = "talker",
                         .host_of = hosts.process(1)});
    // Refused by the other host, at once: it was reached.
    return talker.wait(1500ms) == 1 && talker.err().find("refused") != std::string::npos;
  };
  EXPECT_TRUE(arrives(Hosts::address(0)));
  EXPECT_TRUE(arrives(Hosts::address6(0)));
  hosts.link_down(1);
  EXPECT_FALSE(arrives(Hosts::address(0)));
  hosts.link_up(1);
  EXPECT_TRUE(arrives(Hosts::address(0)));
  EXPECT_TRUE(arrives(Hosts::address6(0)));
  hosts.swallow(0);
  EXPECT_FALSE(arrives(Hosts::address(0)));
}

}  // namespace
}  // namespace phalanx::processes
