#include "phalanx/cuda/emulated/environment.h"

#include <gtest/gtest.h>

namespace phalanx::cuda::emulated {
namespace {

// The rules of CUDA's driver.
TEST(EmulatedEnvironment, ShowsWhatAListNames) {
  EXPECT_EQ(visible_devices(3, nullptr), 3);
  EXPECT_EQ(visible_devices(3, ""), 0);
  EXPECT_EQ(visible_devices(3, "2"), 1);
  EXPECT_EQ(visible_devices(3, "2,0"), 2);
  EXPECT_EQ(visible_devices(3, "0,3,1"), 1);
  EXPECT_EQ(visible_devices(3, "1,-1,2"), 1);
  EXPECT_EQ(visible_devices(3, "1,x"), 1);
  EXPECT_EQ(visible_devices(3, "1,1"), 0);
}

}  // namespace
}  // namespace phalanx::cuda::emulated
