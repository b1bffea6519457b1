#include "phalanx/offload/bandwidth.h"

#include <gtest/gtest.h>

#include "phalanx/offload/storage_test_support.h"

namespace phalanx {
namespace {

using namespace testing_support;

class BandwidthTest : public testing::Test {
 protected:
  BandwidthTest() { set_log_level(LogLevel::kError); }
  TestDirectory base_;
  StorageFolder folder_{base_.path() / "states", "run", 0, "bench disk"};
};

TEST_F(BandwidthTest, WritesAndReadsTheFileAndRemovesIt) {
  for (const std::int64_t bytes : {std::int64_t{5000}, (std::int64_t{17} << 20) + 4096}) {
    BandwidthOptions options{.file_bytes = bytes, .seconds = 1000};
    const DiskBandwidth measured = measure_bandwidth(folder_, options);
    EXPECT_EQ(measured.bytes, (bytes + 4095) / 4096 * 4096);
    EXPECT_GT(measured.write_per_s, 0);
    EXPECT_GT(measured.read_per_s, 0);
    EXPECT_GT(measured.both_per_s, 0);
    EXPECT_NE(measured.description, "");
    EXPECT_FALSE(std::filesystem::exists(folder_.path() / "bandwidth.state"));
  }
}

TEST_F(BandwidthTest, EndsWithATileWhereThereIsNoTime) {
  BandwidthOptions options{.file_bytes = 64 << 20, .seconds = 1e-9};
  EXPECT_EQ(measure_bandwidth(folder_, options).bytes, 8 << 20);
  int asked = 0;
  options.seconds = 1000;
  options.is_stopped = [&] { return ++asked > 2; };
  EXPECT_EQ(measure_bandwidth(folder_, options).bytes, 8 << 20);
}

}  // namespace
}  // namespace phalanx
