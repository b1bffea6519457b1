#include "phalanx/metrics/timing_log.h"

#include <gtest/gtest.h>

namespace phalanx {
namespace {

const std::vector<TimerRow>& example() {
  static const std::vector<TimerRow> rows = {{"forward-backward", {0.5, 0.25, 0.75}},
                                             {"embedding-grads-all-reduce", {0.002, 0, 0.001}},
                                             {"optimizer-count-zeros", {0, 0, 0}}};
  return rows;
}

TEST(TimingLog, MinMaxIsMegatrons) {
  EXPECT_EQ(format_times("minmax", example()),
            "(min, max) time across ranks (ms):\n"
            "    forward-backward ...............................: (250.00, 750.00)\n"
            "    embedding-grads-all-reduce .....................: (1.00, 2.00)");
}

TEST(TimingLog, MaxIsMegatrons) {
  EXPECT_EQ(format_times("max", example()),
            "max time across ranks (ms):\n"
            "    forward-backward ...............................: 750.00\n"
            "    embedding-grads-all-reduce .....................: 2.00");
}

TEST(TimingLog, AllIsMegatrons) {
  EXPECT_EQ(format_times("all", example()),
            "times across ranks (ms):\n"
            "  forward-backward:\n"
            "     rank  0: 500.00\n"
            "     rank  1: 250.00\n"
            "     rank  2: 750.00\n"
            "  embedding-grads-all-reduce:\n"
            "     rank  0: 2.00\n"
            "     rank  2: 1.00");
}

TEST(TimingLog, NothingRanNothingIsSaid) {
  const std::vector<TimerRow> rows = {{"optimizer", {0, 0}}};
  for (const char* option : {"minmax", "max", "all"}) {
    EXPECT_EQ(format_times(option, rows), "");
    EXPECT_EQ(format_times(option, {}), "");
  }
}

}  // namespace
}  // namespace phalanx
