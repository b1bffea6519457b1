#include "phalanx/base/memory_limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <new>
#include <stdexcept>

#include "phalanx/base/test_support.h"

namespace phalanx {
namespace {

using testing::HasSubstr;

void tell_limited(__rlimit_resource resource) {
  constexpr rlim_t kLimit = rlim_t{1} << 46;  // AddressSanitizer takes 20 TiB
  const rlimit limit{.rlim_cur = kLimit, .rlim_max = kLimit};
  ::setrlimit(resource, &limit);
  std::fprintf(stderr, "%s\n", out_of_memory().c_str());
  std::_Exit(0);
}

TEST(MemoryLimitsDeathTest, OfTheShellAreNamed) {
  EXPECT_EXIT(tell_limited(RLIMIT_AS), testing::ExitedWithCode(0),
              "out of memory: ulimit -v is 64.0 TiB, [0-9.]+ .iB of it in use: raise the limit");
  EXPECT_EXIT(tell_limited(RLIMIT_DATA), testing::ExitedWithCode(0), "ulimit -d is 64.0 TiB");
}

TEST(MemoryLimits, OfTheMachineAreNamed) {
  const TemporaryDirectory root("limits");
  std::filesystem::create_directories(root.path() / "proc/sys/vm");
  std::ofstream(root.path() / "proc/meminfo")
      << "MemTotal: 9 kB\nCommitLimit:   2048 kB\nCommitted_AS:  1024 kB\n";
  std::ofstream(root.path() / "proc/sys/vm/overcommit_memory") << "2\n";
  EXPECT_THAT(memory_limits(root.path()),
              HasSubstr("vm.overcommit_memory is 2, 1.00 MiB of 2.00 MiB are committed"));
}

TEST(MemoryLimits, AFailedAllocationIsWords) {
  EXPECT_THAT(text_of(std::bad_alloc()), testing::StartsWith("out of memory"));
  EXPECT_EQ(text_of(std::runtime_error("x")), "x");
}

}  // namespace
}  // namespace phalanx
