#include "phalanx/ops/checked_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "phalanx/base/test_support.h"
#include "phalanx/ops/measured_device.h"

namespace phalanx {
namespace {

class CheckedDevices : public testing::Test {
 protected:
  CheckedDevices() { ::setenv("XDG_STATE_HOME", directory_.path().c_str(), 1); }
  ~CheckedDevices() override { ::unsetenv("XDG_STATE_HOME"); }

  TemporaryDirectory directory_;
  const CheckedDevice device_{"NVIDIA H100", 13000, "cuda-sm90-lt130100"};
};

TEST_F(CheckedDevices, AreKeptByDeviceDriverAndLibrary) {
  EXPECT_FALSE(is_checked(device_));
  EXPECT_EQ(keep_checked(device_, true), "");
  EXPECT_TRUE(is_checked(device_));
  for (const CheckedDevice& other : {CheckedDevice{"NVIDIA A100", 13000, "cuda-sm90-lt130100"},
                                     CheckedDevice{"NVIDIA H100", 12080, "cuda-sm90-lt130100"},
                                     CheckedDevice{"NVIDIA H100", 13000, "cuda-sm90-lt130200"}}) {
    EXPECT_FALSE(is_checked(other)) << other.text();
    EXPECT_EQ(keep_checked(other, true), "");
    EXPECT_TRUE(is_checked(other)) << other.text();
  }
  EXPECT_TRUE(is_checked(device_));
}

TEST_F(CheckedDevices, PassedOnceAndFailLater) {
  EXPECT_EQ(keep_checked(device_, false), "");
  EXPECT_FALSE(std::filesystem::exists(directory_ / "phalanx"));
  EXPECT_EQ(keep_checked(device_, true), "");
  EXPECT_EQ(keep_checked(device_, true), "");
  EXPECT_EQ(keep_checked(device_, false), "");
  EXPECT_FALSE(is_checked(device_));
}

// What a run says of a device; others need no check.
TEST_F(CheckedDevices, AreNotWarnedOf) {
  MeasuredDevice measured;
  EXPECT_EQ(measured.unchecked_text(), "");
  measured.cuda = MeasuredDevice::Cuda{.place = {CudaMachine::kEmulated, 0},
                                       .name = device_.name,
                                       .products = device_.products,
                                       .driver = device_.driver};
  EXPECT_EQ(measured.unchecked_text(), "");
  measured.cuda->place.machine = CudaMachine::kDevice;
  EXPECT_THAT(measured.unchecked_text(),
              testing::AllOf(testing::HasSubstr("NVIDIA H100, driver of CUDA 13.0"),
                             testing::HasSubstr("phalanx selftest --device cuda")));
  EXPECT_EQ(keep_checked(device_, true), "");
  EXPECT_EQ(measured.unchecked_text(), "");
  measured.cuda->driver = 13010;
  EXPECT_NE(measured.unchecked_text(), "");
}

// No home, or one that cannot be written, ends nothing.
TEST_F(CheckedDevices, NeedNoFolder) {
  std::ofstream(directory_ / "phalanx") << "a file\n";
  EXPECT_FALSE(is_checked(device_));
  EXPECT_NE(keep_checked(device_, true), "");
  ::unsetenv("XDG_STATE_HOME");
  const std::string home = std::getenv("HOME");
  ::unsetenv("HOME");
  EXPECT_FALSE(state_folder().has_value());
  EXPECT_NE(keep_checked(device_, true), "");
  ::setenv("HOME", home.c_str(), 1);
  EXPECT_EQ(state_folder()->string(), home + "/.local/state/phalanx");
}

}  // namespace
}  // namespace phalanx
