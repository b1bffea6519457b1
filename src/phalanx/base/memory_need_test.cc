#include "phalanx/base/memory_need.h"

#include <gtest/gtest.h>

#include "phalanx/base/error.h"
#include "phalanx/base/test_support.h"

namespace phalanx {
namespace {

TEST(MemoryNeed, IsComparedWithWhatIsThere) {
  const AvailableMemory available{.bytes = std::int64_t{3} << 30,
                                  .limit = "memory.max of cgroup /job"};
  const auto fault = [&](double bytes) {
    return error_of<ConfigError>([&] {
      expect_memory("a sample of 7 tokens", bytes, "give a smaller --seq-length", available);
    });
  };
  EXPECT_EQ(fault(3.0 * (1 << 30)), "no error");
  EXPECT_EQ(
      fault(4.0 * (1 << 30)),
      "a sample of 7 tokens takes 4.00 GiB of memory, and 3.00 GiB are available (memory.max of "
      "cgroup /job): give a smaller --seq-length");
  EXPECT_NE(fault(1e30), "no error");  // more than 64 bits count
  EXPECT_NO_THROW(expect_memory("a byte", 1, "find one"));
}

}  // namespace
}  // namespace phalanx
