#include "phalanx/pipeline/schedule_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "phalanx/base/error.h"
#include "phalanx/base/test_support.h"

namespace phalanx {
namespace {

TEST(ScheduleMemory, IsComparedWithTheMachines) {
  EXPECT_NO_THROW(expect_schedules_fit(1e3, "give fewer"));
  EXPECT_THAT(error_of<ConfigError>([] { expect_schedules_fit(1e15, "give fewer"); }),
              testing::AllOf(testing::HasSubstr("a schedule of 1e+15 forward passes takes"),
                             testing::HasSubstr("give fewer")));
}

}  // namespace
}  // namespace phalanx
