#include "phalanx/rehearsal/disk_time.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/base/test_support.h"

namespace phalanx {
namespace {

using testing::AllOf;
using testing::HasSubstr;

LayoutConfig with(const std::string& bandwidth) {
  LayoutConfig layout;
  layout.disk_bandwidth = bandwidth;
  return layout;
}

TEST(DiskTime, BytesAreThoseOfAllFiles) {
  TransferTotals once, transfers;
  once.add({{"exp_avg", "read", 100}, {"exp_avg", "write", 80}, {"parameters", "read", 7}});
  transfers.add(once, 3);
  EXPECT_EQ(disk_traffic(transfers), (DiskTraffic{.read = 321, .written = 240}));
  EXPECT_EQ(disk_traffic({}), DiskTraffic{});
}

TEST(DiskTime, RatesAreTwoNumbersAboveZero) {
  EXPECT_FALSE(disk_rates(with("")));
  const auto rates = disk_rates(with("1.5,0.25"));
  ASSERT_TRUE(rates);
  EXPECT_EQ(rates->read, 1.5e9);
  EXPECT_EQ(rates->written, 0.25e9);
  for (const char* wrong : {"1.5", "1.5,", ",1.5", ",", "0,1", "1,0", "-1,2", "1,-2", "nan,1",
                            "1,inf", "1,2,3", "1,2 ", "1;2", "1 2", "fast,slow"}) {
    EXPECT_THAT(
        error_of<ConfigError>([&] { disk_rates(with(wrong)); }),
        AllOf(HasSubstr(std::string("--disk-bandwidth ") + wrong + ": "), HasSubstr("bench disk")));
  }
}

// Three ranks on two hosts: 3 GB read and 1 GB written on the first, 2 and 3 on the second.
TEST(DiskTime, TheBusiestHostsRanksShareItsDisk) {
  constexpr std::int64_t kGb = 1'000'000'000;
  const std::vector<DiskTraffic> traffic = {{kGb, kGb}, {2 * kGb, 0}, {2 * kGb, 3 * kGb}};
  const auto host = [](int rank) { return rank / 2; };
  const auto two = disk_step(with("2,0.5"), traffic, host);
  ASSERT_TRUE(two);
  EXPECT_EQ(two->traffic, (DiskTraffic{2 * kGb, 3 * kGb}));
  EXPECT_DOUBLE_EQ(two->seconds.value(), 7.0);  // 2 / 2 + 3 / 0.5
  const auto one = disk_step(with("2,0.5"), traffic, [](int) { return 0; });
  EXPECT_EQ(one->traffic, (DiskTraffic{5 * kGb, 4 * kGb}));
  EXPECT_DOUBLE_EQ(one->seconds.value(), 10.5);
  EXPECT_EQ(to_text(*one, with("2,0.5")),
            "reads 4.66 GiB and writes 3.73 GiB, which takes 10.5 s at 2 and 0.5 GB/s");
}

TEST(DiskTime, WithoutRatesThereAreBytesAlone) {
  const std::vector<DiskTraffic> traffic = {{1024, 2048}};
  const auto host = [](int) { return 0; };
  const auto step = disk_step(with(""), traffic, host);
  ASSERT_TRUE(step);
  EXPECT_FALSE(step->seconds);
  EXPECT_EQ(to_text(*step, with("")), "reads 1.00 KiB and writes 2.00 KiB");
  const std::vector<DiskTraffic> none(3);
  EXPECT_FALSE(disk_step(with("1,1"), none, host));
}

}  // namespace
}  // namespace phalanx
