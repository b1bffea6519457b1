#include "phalanx/ops/cpu/first_touch.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

namespace phalanx::cpu {
namespace {

constexpr std::int64_t kPiece = 2 << 20;

std::int64_t resident_pages(const Arena& arena) {
  const std::int64_t page = ::sysconf(_SC_PAGESIZE);
  std::vector<unsigned char> resident(static_cast<std::size_t>(arena.capacity() / page + 1));
  EXPECT_EQ(::mincore(arena.base(), static_cast<std::size_t>(arena.capacity()), resident.data()),
            0);
  return std::ranges::count_if(resident, [](unsigned char bits) { return (bits & 1) != 0; });
}

// All pages are present afterwards, including the last, and hold zeros.
TEST(FirstTouch, ReachesEveryPage) {
  const std::int64_t page = ::sysconf(_SC_PAGESIZE);
  for (const int threads : {1, 3}) {
    for (const std::int64_t pieces : {0, 4, 7}) {
      const Arena arena("touched", pieces * kPiece + 5 * page + 1);
      FirstTouch touch(threads, arena);
      EXPECT_EQ(touch.left(), arena.capacity());
      touch.take(arena.capacity());
      EXPECT_EQ(touch.left(), 0);
      EXPECT_EQ(resident_pages(arena), pieces * kPiece / page + 6);
      EXPECT_TRUE(std::all_of(arena.base(), arena.base() + arena.capacity(),
                              [](std::byte byte) { return byte == std::byte{0}; }));
    }
  }
  const Arena nothing("empty", 0);
  FirstTouch(2, nothing).take(1);
  EXPECT_EQ(FirstTouch(2, nothing).left(), 0);
}

// All shares advance together, and left() counts what was taken.
TEST(FirstTouch, TakesFromEveryShareEvenly) {
  const std::int64_t page = ::sysconf(_SC_PAGESIZE);
  const Arena arena("touched", 7 * kPiece);
  ::madvise(arena.base(), static_cast<std::size_t>(arena.capacity()), MADV_NOHUGEPAGE);
  FirstTouch touch(3, arena);  // pieces 0 and 1, 2 and 3, 4 to 6
  for (const std::int64_t left : {4, 1, 0}) {
    touch.take(3 * kPiece);
    EXPECT_EQ(touch.left(), left * kPiece);
    EXPECT_EQ(resident_pages(arena), (7 - left) * kPiece / page);
  }
}

}  // namespace
}  // namespace phalanx::cpu
