#include "phalanx/saving/snapshot_ring.h"

#include <gtest/gtest.h>

#include <deque>
#include <random>

namespace phalanx {
namespace {

TEST(SnapshotRing, GoesAroundAndKeepsPiecesWhole) {
  SnapshotRing ring(10);
  EXPECT_EQ(ring.take(11), std::nullopt);
  EXPECT_EQ(ring.take(4), 0);
  EXPECT_EQ(ring.take(4), 4);
  EXPECT_EQ(ring.take(3), std::nullopt);
  ring.give_back_oldest();
  // Two are free at the end, four at the beginning.
  EXPECT_EQ(ring.take(3), 0);
  EXPECT_EQ(ring.take(2), std::nullopt);
  EXPECT_EQ(ring.take(1), 3);
  EXPECT_EQ(ring.take(1), std::nullopt);
  ring.give_back_newest();
  ring.give_back_oldest();
  EXPECT_EQ(ring.take(7), 3);
  EXPECT_EQ(ring.take(1), std::nullopt);
  EXPECT_EQ(SnapshotRing(0).take(1), std::nullopt);
}

TEST(SnapshotRing, NeverGivesAPlaceTwice) {
  constexpr std::int64_t kCapacity = 100;
  std::mt19937 random(5);
  SnapshotRing ring(kCapacity);
  std::deque<std::pair<std::int64_t, std::int64_t>> taken;
  int refused = 0;
  for (int i = 0; i < 10000; ++i) {
    const auto bytes = static_cast<std::int64_t>(1 + random() % 40);
    if (const auto place = ring.take(bytes)) {
      EXPECT_GE(*place, 0);
      EXPECT_LE(*place + bytes, kCapacity);
      for (const auto& [begin, end] : taken) EXPECT_TRUE(*place + bytes <= begin || end <= *place);
      taken.emplace_back(*place, *place + bytes);
    } else {
      ++refused;
      ASSERT_FALSE(taken.empty());
      taken.pop_front();
      ring.give_back_oldest();
    }
  }
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace phalanx
