// Every list of docs/schedules.md, action by action.

#include <gtest/gtest.h>

#include <algorithm>

#include "phalanx/pipeline/schedules/test_support.h"
#include "phalanx/pipeline/schedules/test_vectors.h"

namespace phalanx {
namespace {

// Without the line breaks of the header: single spaces between passes.
std::string one_line(std::string_view text) {
  std::string joined;
  for (const char c : text) {
    const bool space = c == ' ' || c == '\n';
    if (!space) {
      joined += c;
    } else if (!joined.empty() && joined.back() != ' ' && joined.back() != ';') {
      joined += ' ';
    }
  }
  return joined;
}

TEST(ScheduleVectors, EveryList) {
  for (const ExpectedSchedule& expected : kExpectedSchedules) {
    EXPECT_EQ(passes_of(schedule_of(expected.kind, 4, 8, expected.chunks)),
              one_line(expected.passes))
        << expected.kind;
  }
}

TEST(ScheduleVectors, EveryKindHasAList) {
  for (const ScheduleKind& kind : schedule_kinds()) {
    if (kind.update != UpdateRule::kFlush || kind.name == "auto") continue;
    EXPECT_TRUE(std::ranges::count(kExpectedSchedules, kind.name, &ExpectedSchedule::kind) > 0)
        << kind.name << " needs an entry in test_vectors.h";
  }
}

}  // namespace
}  // namespace phalanx
