// Every list of docs/schedules.md, action by action.

#include <gtest/gtest.h>

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
  for (const ListVector& vector : kListVectors) {
    EXPECT_EQ(passes_of(schedule_of(vector.kind, 4, 8, vector.chunks)), one_line(vector.passes))
        << vector.kind;
  }
}

}  // namespace
}  // namespace phalanx
