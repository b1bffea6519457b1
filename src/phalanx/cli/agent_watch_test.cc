#include "phalanx/cli/agent_watch.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <latch>

#include "phalanx/base/test_support.h"
#include "phalanx/cli/signals.h"

namespace phalanx {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class AgentWatchTest : public testing::Test {
 protected:
  // A process of a /proc of the test's.
  void add(pid_t process, pid_t parent, const std::string& environment, pid_t session = 5,
           int terminal = 0) const {
    const auto folder = root_.path() / "proc" / std::to_string(process);
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "stat") << fmt::format("{} (a name) b) S {} {} {} {} -1", process,
                                                  parent, process, session, terminal);
    std::ofstream(folder / "environ") << environment;
  }
  std::vector<pid_t> found(pid_t self = 40) const {
    return processes_of_agent(self, "none", root_.path());
  }

  const TemporaryDirectory root_{"agent"};
  const std::string launched_ = std::string("A=1\0TORCHELASTIC_RUN_ID=none\0RANK=1\0", 36);
};

TEST_F(AgentWatchTest, TheAgentIsWhoHasNotItsVariables) {
  add(40, 30, launched_);
  add(30, 20, std::string("A=1\0", 4));
  add(20, 1, "");
  EXPECT_THAT(found(), ElementsAre(30));
}

// The end of a script between the agent and its rank is as good as the agent's.
TEST_F(AgentWatchTest, AScriptOfTheAgentIsWatchedToo) {
  add(40, 35, launched_);
  add(35, 30, launched_);
  add(30, 20, "NOT_TORCHELASTIC_RUN_ID=none");
  EXPECT_THAT(found(), ElementsAre(35, 30));
}

// Whose parents have all ended, or who was started from a shell in which somebody has exported the
// variables, has no agent.
TEST_F(AgentWatchTest, ThereMayBeNone) {
  add(40, 1, launched_);
  EXPECT_THAT(found(), IsEmpty());
  add(40, 30, launched_);
  add(30, 1, launched_);  // a server of terminals that a rank has started
  EXPECT_THAT(found(), IsEmpty());
  add(30, 20, "", 30, 34816);  // a shell at its terminal
  EXPECT_THAT(found(), IsEmpty());
  EXPECT_THAT(found(7), IsEmpty());  // who is not there
}

TEST_F(AgentWatchTest, OnlyTorchrunsRanksHaveOne) {
  for (const char* source : {"phalanx launch", "Slurm", "RANK and WORLD_SIZE"}) {
    LaunchEnvironment environment;
    environment.source = source;
    EXPECT_EQ(watch_agent(environment, std::chrono::hours(1)), nullptr) << source;
  }
}

TEST_F(AgentWatchTest, AnEndIsASigtermAndLaterTheEnd) {
  const pid_t agent = ::fork();
  if (agent == 0) {
    ::pause();
    ::_exit(0);
  }
  const StopSignals signals(true);
  std::latch ended(1);
  const auto watch =
      watch_processes({agent}, std::chrono::milliseconds(1), [&] { ended.count_down(); });
  ASSERT_NE(watch, nullptr);
  EXPECT_EQ(signals.received(), 0);
  ::kill(agent, SIGKILL);
  ended.wait();
  EXPECT_EQ(signals.received(), SIGTERM);
  ::waitpid(agent, nullptr, 0);
}

TEST_F(AgentWatchTest, ARunThatEndsFirstIsLeftAlone) {
  const StopSignals signals(true);
  {
    const auto watch = watch_processes({::getppid()}, std::chrono::hours(1), [] { FAIL(); });
  }
  EXPECT_EQ(signals.received(), 0);
}

}  // namespace
}  // namespace phalanx
