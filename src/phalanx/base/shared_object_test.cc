#include "phalanx/base/shared_object.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "phalanx/base/error.h"
#include "phalanx/base/test_support.h"

namespace phalanx {
namespace {

TEST(SharedObject, AMissingOneIsNamedWithAdvice) {
  const std::string error = error_of<SystemError>(
      [] { open_shared_object("libphalanx_none.so", "Nothing", "build target none"); });
  EXPECT_THAT(error, testing::StartsWith("Nothing: libphalanx_none.so is not beside the program"));
  EXPECT_THAT(error, testing::EndsWith("nor in its ../lib; build target none"));
}

}  // namespace
}  // namespace phalanx
