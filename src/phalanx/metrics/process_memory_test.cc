#include "phalanx/metrics/process_memory.h"

#include <gtest/gtest.h>

#include <vector>

namespace phalanx {
namespace {

TEST(ProcessMemory, GrowsWithWhatIsTouched) {
  const auto before = resident_bytes();
  EXPECT_GT(before, 0);
  EXPECT_GE(peak_resident_bytes(), before);
  constexpr std::int64_t kBytes = 64LL << 20;
  {
    const std::vector<char> block(kBytes, 1);
    EXPECT_GE(resident_bytes(), before + kBytes * 3 / 4) << int{block[12345]};
  }
  EXPECT_GE(peak_resident_bytes(), before + kBytes * 3 / 4);
}

TEST(ProcessMemory, ReadsTheStatusFile) {
  constexpr std::string_view kStatus = "Name:\tx\nVmHWM:\t   12 kB\nVmRSS:\t8 kB\nVmBad: x\n";
  EXPECT_EQ(detail::status_bytes(kStatus, "VmHWM"), 12 * 1024);
  EXPECT_EQ(detail::status_bytes(kStatus, "VmRSS"), 8 * 1024);
  EXPECT_EQ(detail::status_bytes(kStatus, "VmBad"), -1);
  EXPECT_EQ(detail::status_bytes(kStatus, "VmPeak"), -1);
}

}  // namespace
}  // namespace phalanx
