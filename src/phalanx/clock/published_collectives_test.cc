// The measured all-reduce times of a node of A100, and the two descriptions of such nodes.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "phalanx/clock/collective_cost.h"
#include "phalanx/clock/machine.h"
#include "phalanx/clock/test_support.h"

namespace phalanx {
namespace {

struct Misses {
  double mean = 0.0;
  double most = 0.0;
  int rows = 0;
};

// Relative to the measured times of at least so many bytes.
Misses misses_of(const std::string& cluster, double least_bytes) {
  const ClusterDescription description = shipped_cluster(cluster);
  Misses misses;
  for (const PlannerRow& row : planner_rows("nccl_a100.csv")) {
    const double bytes = row.number("bytes");
    if (bytes < least_bytes) continue;
    const int ranks = row.whole("ranks");
    const double seconds = collective_seconds(description, CollectiveKind::kAllReduce, bytes,
                                              {.ranks = ranks, .ranks_in_node = ranks});
    const double miss = std::abs(seconds / (1e-6 * row.number("microseconds")) - 1.0);
    misses.mean += miss;
    misses.most = std::max(misses.most, miss);
    ++misses.rows;
  }
  misses.mean /= std::max(misses.rows, 1);
  return misses;
}

TEST(PublishedCollectives, AreFittedByOneLatencyAndRateForEachNumberOfRanks) {
  const Misses all = misses_of("vtrain", 0);
  EXPECT_EQ(all.rows, 77);
  EXPECT_LT(all.mean, 0.05);
  EXPECT_LT(all.most, 0.17);
  const Misses large = misses_of("vtrain", 16 << 20);
  EXPECT_EQ(large.rows, 49);
  EXPECT_LT(large.mean, 0.04);
}

// Selene's constants are fitted to steps of other machines, whose all-reduce has not been
// published.
TEST(PublishedCollectives, OfAnotherMachineAreSlowerThanSelenesConstants) {
  const Misses large = misses_of("selene", 64 << 20);
  EXPECT_LT(large.mean, 0.16);
  const Misses all = misses_of("selene", 0);
  EXPECT_LT(all.mean, 0.23);
}

}  // namespace
}  // namespace phalanx
