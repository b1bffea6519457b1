#include "phalanx/start/snapshot_share.h"

#include <gtest/gtest.h>

namespace phalanx {
namespace {

TEST(SnapshotShare, IsAtMostHalfOfWhatIsFree) {
  EXPECT_EQ(snapshot_share(100, 50, 150), 0.5);
  EXPECT_EQ(snapshot_share(100, 50, 250), 1.0);
  EXPECT_EQ(snapshot_share(100, 50, 1000), 1.0);
  EXPECT_EQ(snapshot_share(100, 50, 50), 0.0);
  EXPECT_EQ(snapshot_share(100, 200, 50), 0.0);
  EXPECT_EQ(snapshot_share(0, 50, 150), 0.0);
}

}  // namespace
}  // namespace phalanx
