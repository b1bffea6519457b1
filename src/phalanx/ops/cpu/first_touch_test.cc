#include "phalanx/ops/cpu/first_touch.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

namespace phalanx::cpu {
namespace {

// Every page is there afterwards, to the last byte's, and holds zeros.
TEST(FirstTouch, ReachesEveryPage) {
  const std::int64_t page = ::sysconf(_SC_PAGESIZE);
  for (const int threads : {1, 3}) {
    const Arena arena("touched", 5 * page + 1);
    touch_first(threads, arena);
    std::vector<unsigned char> resident(6);
    ASSERT_EQ(::mincore(arena.base(), static_cast<std::size_t>(arena.capacity()), resident.data()),
              0);
    EXPECT_EQ(std::ranges::count(resident, 0), 0);
    EXPECT_TRUE(std::all_of(arena.base(), arena.base() + arena.capacity(),
                            [](std::byte byte) { return byte == std::byte{0}; }));
  }
  touch_first(2, Arena("empty", 0));
}

}  // namespace
}  // namespace phalanx::cpu
