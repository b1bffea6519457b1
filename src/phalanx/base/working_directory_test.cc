#include "phalanx/base/working_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "phalanx/base/error.h"
#include "phalanx/base/test_support.h"

namespace phalanx {
namespace {

TEST(WorkingDirectory, APathThatIsRecordedIsUtf8) {
  EXPECT_EQ(recorded_path("/läufe/日本"), "/läufe/日本");
  const std::string message = error_of<UsageError>([] { recorded_path("/runs/caf\xe9/iter"); });
  EXPECT_THAT(message, testing::HasSubstr("/runs/caf\\xe9/iter: the path is not UTF-8"));
  // A path that is used and forgotten may be anything.
  EXPECT_EQ(absolute_path("/runs/caf\xe9").native(), "/runs/caf\xe9");
}

}  // namespace
}  // namespace phalanx
