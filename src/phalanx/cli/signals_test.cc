#include "phalanx/cli/signals.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <string>
#include <thread>

#include "phalanx/base/error.h"
#include "phalanx/flag_table/train_flags.h"

namespace phalanx {
namespace {

// The tests may run in a process that a launcher started: these variables are cleared.
class StopSignalsTest : public testing::Test {
 protected:
  StopSignalsTest() {
    ::unsetenv("RANK");
    ::unsetenv("SLURM_PROCID");
  }
  ~StopSignalsTest() override {
    ::unsetenv("RANK");
    ::unsetenv("SLURM_PROCID");
  }

  static std::string said_of_two_interrupts(bool saves) {
    testing::internal::CaptureStderr();
    const StopSignals signals(saves);
    EXPECT_EQ(signals.received(), 0);
    std::raise(SIGINT);
    // Within a second it counts as the same one, doubled.
    std::raise(SIGINT);
    EXPECT_EQ(signals.received(), SIGINT);
    return testing::internal::GetCapturedStderr();
  }
  static void interrupt_twice() {
    const StopSignals signals(true);
    std::raise(SIGINT);
    std::this_thread::sleep_for(std::chrono::milliseconds(1010));
    std::raise(SIGINT);
    std::_Exit(7);
  }
};
using StopSignalsDeathTest = StopSignalsTest;

TEST_F(StopSignalsTest, TheFirstInterruptSaysWhatHappens) {
  const std::string text = said_of_two_interrupts(true);
  EXPECT_TRUE(text.starts_with("SIGINT: finishing this step, saving")) << text;
  EXPECT_NE(text.find("press Ctrl-C again"), std::string::npos) << text;
  EXPECT_EQ(text.find('\n'), text.size() - 1) << text;
  EXPECT_NE(said_of_two_interrupts(false).find("nothing is saved"), std::string::npos);
}

// A closed terminal.
TEST_F(StopSignalsTest, AHangupSavesUnlessItIsIgnored) {
  struct sigaction before {};
  ::sigaction(SIGHUP, nullptr, &before);
  {
    const StopSignals signals(true);
    std::raise(SIGHUP);
    EXPECT_EQ(signals.received(), SIGHUP);
  }
  std::signal(SIGHUP, SIG_IGN);  // nohup
  hold_stop_signals();
  std::raise(SIGHUP);
  {
    const StopSignals signals(true);
    std::raise(SIGHUP);
    EXPECT_EQ(signals.received(), 0);
  }
  {
    const StopSignals chosen(true, SIGHUP);
    std::raise(SIGHUP);
    EXPECT_EQ(chosen.received(), SIGHUP);
  }
  std::raise(SIGHUP);  // ignored again
  ::sigaction(SIGHUP, &before, nullptr);
  for (const int signal : {SIGINT, SIGTERM}) std::signal(signal, SIG_DFL);
}

// A signal that comes before the handlers is not lost, and does not end the process.
TEST_F(StopSignalsTest, HeldSignalsWait) {
  struct sigaction interrupt {};
  struct sigaction terminate {};
  ::sigaction(SIGINT, nullptr, &interrupt);
  ::sigaction(SIGTERM, nullptr, &terminate);
  hold_stop_signals();
  std::raise(SIGTERM);
  {
    const StopSignals signals(true);
    EXPECT_EQ(signals.received(), SIGTERM);
  }
  const StopSignals next(true);
  EXPECT_EQ(next.received(), 0);
  ::sigaction(SIGINT, &interrupt, nullptr);
  ::sigaction(SIGTERM, &terminate, nullptr);
  std::signal(SIGHUP, SIG_DFL);
}

// Of many processes only the first prints the line, without what only the launcher can do.
TEST_F(StopSignalsTest, OneOfManyProcessesSpeaks) {
  for (const char* variable : {"RANK", "SLURM_PROCID"}) {
    ::setenv(variable, "0", 1);
    const std::string text = said_of_two_interrupts(true);
    EXPECT_TRUE(text.starts_with("SIGINT: finishing this step, saving")) << text;
    EXPECT_EQ(text.find("press Ctrl-C"), std::string::npos) << text;
    ::setenv(variable, "3", 1);
    EXPECT_EQ(said_of_two_interrupts(true), "");
    ::unsetenv(variable);
  }
}

TEST_F(StopSignalsTest, FurtherTerminationsChangeNothing) {
  testing::internal::CaptureStderr();
  const StopSignals signals(true);
  for (int i = 0; i < 3; ++i) std::raise(SIGTERM);
  EXPECT_EQ(signals.received(), SIGTERM);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST_F(StopSignalsTest, ListensToTheChosenSignalToo) {
  for (const int number : {SIGUSR1, SIGTERM, SIGINT}) {
    const StopSignals signals(true, SIGUSR1);
    testing::internal::CaptureStderr();
    std::raise(number);
    testing::internal::GetCapturedStderr();
    EXPECT_EQ(signals.received(), number);
  }
}

TEST(SignalNumber, KnowsWhatARunListensTo) {
  EXPECT_EQ(signal_number("SIGTERM"), SIGTERM);
  EXPECT_EQ(signal_number("SIGUSR1"), SIGUSR1);
  EXPECT_EQ(signal_number("SIGXCPU"), SIGXCPU);
  for (const char* name : {"SIGKILL", "USR1", "SIG", "", "sigterm"}) {
    EXPECT_THROW(signal_number(name), ConfigError) << name;
  }
  // All values that the flag takes.
  for (const auto name : words_of(find_train_flag("--exit-signal")->spec.choices)) {
    EXPECT_NO_THROW(signal_number(name)) << name;
  }
}

TEST_F(StopSignalsTest, HandlersLiveAsLongAsTheObject) {
  for (const int also : {SIGTERM, SIGUSR2}) {
    for (const int number : {SIGTERM, SIGINT, also}) {
      struct sigaction before {};
      ::sigaction(number, nullptr, &before);
      { const StopSignals signals(true, also); }
      struct sigaction after {};
      ::sigaction(number, nullptr, &after);
      EXPECT_EQ(before.sa_handler, after.sa_handler);
    }
  }
}

TEST_F(StopSignalsDeathTest, ALaterInterruptEndsAtOnce) {
  EXPECT_EXIT(interrupt_twice(), testing::ExitedWithCode(130), "ended at once");
}

// The launcher ends its ranks itself.
TEST_F(StopSignalsDeathTest, ALaunchedProcessGoesOn) {
  ::setenv("RANK", "0", 1);
  EXPECT_EXIT(interrupt_twice(), testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace phalanx
