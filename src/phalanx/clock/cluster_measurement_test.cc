#include "phalanx/clock/cluster_measurement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <tuple>

#include "phalanx/base/error.h"
#include "phalanx/base/test_support.h"
#include "phalanx/comm/local/local_ranks.h"

namespace phalanx {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<RankPlace> places_of(const std::vector<int>& ranks_of_hosts) {
  std::vector<RankPlace> places;
  for (std::size_t host = 0; host < ranks_of_hosts.size(); ++host) {
    for (int i = 0; i < ranks_of_hosts[host]; ++i) {
      places.push_back({.rank = static_cast<int>(places.size()),
                        .host = static_cast<int>(host),
                        .local_rank = i,
                        .local_size = ranks_of_hosts[host],
                        .host_name = {}});
    }
  }
  return places;
}

TEST(ClusterMeasurement, RanksAreEquallyManyInEachNode) {
  const NodeRanks nodes = nodes_of(places_of({3, 3}));
  EXPECT_EQ(nodes.nodes, 2);
  EXPECT_EQ(nodes.ranks_per_node, 3);
  EXPECT_THAT(error_of<ConfigError>([] { nodes_of(places_of({1})); }), HasSubstr("--nproc N"));
  EXPECT_THAT(error_of<ConfigError>([] {
                nodes_of(places_of({2, 1}));
              }),
              HasSubstr("rank 2 is number 0 of 1 on host 1, and host 0 has 2 ranks"));
}

TEST(ClusterMeasurement, GroupsAreOfNeighboursAndOfEqualNumbersInTheirNodes) {
  const std::vector<MeasuredGroups> groups = measured_groups({.nodes = 2, .ranks_per_node = 3});
  ASSERT_EQ(groups.size(), 4U);
  EXPECT_THAT(groups[0].groups, ElementsAre(ElementsAre(0, 1), ElementsAre(3, 4)));
  EXPECT_THAT(groups[1].groups, ElementsAre(ElementsAre(0, 1, 2), ElementsAre(3, 4, 5)));
  EXPECT_THAT(groups[2].groups,
              ElementsAre(ElementsAre(0, 3), ElementsAre(1, 4), ElementsAre(2, 5)));
  EXPECT_EQ(groups[2].place.stride, 3);
  EXPECT_EQ(groups[2].place.nodes(), 2);
  EXPECT_THAT(groups[3].groups, ElementsAre(ElementsAre(0, 1, 2, 3, 4, 5)));
  EXPECT_EQ(groups[3].place.nodes(), 2);
}

MeasuredCluster measured_on_threads(const NodeRanks& nodes,
                                    const ClusterMeasurementOptions& options) {
  std::vector<MeasuredCluster> of_ranks(
      static_cast<std::size_t>(nodes.nodes * nodes.ranks_per_node));
  run_local_ranks(static_cast<int>(of_ranks.size()), {}, [&](Communicator& world) {
    of_ranks[static_cast<std::size_t>(world.rank())] = measure_cluster(world, nodes, options);
  });
  for (const MeasuredCluster& other : of_ranks) {
    EXPECT_EQ(other.is_stopped, of_ranks.front().is_stopped);
    EXPECT_EQ(other.measurements.collectives.size(),
              of_ranks.front().measurements.collectives.size());
  }
  return of_ranks.front();
}

TEST(ClusterMeasurement, TimesEveryKindOfGroupAndMessage) {
  const MeasuredCluster found =
      measured_on_threads({.nodes = 2, .ranks_per_node = 2}, {.is_quick = true});
  EXPECT_FALSE(found.is_stopped);
  std::set<std::tuple<CollectiveKind, int, int>> groups;
  for (const CollectivePoint& point : found.measurements.collectives) {
    EXPECT_GT(point.seconds, 0);
    EXPECT_GE(point.bytes, 65536);
    groups.emplace(point.kind, point.place.ranks, point.place.ranks_in_node);
  }
  EXPECT_EQ(groups.size(), 12U);  // four kinds; two neighbours, two over nodes, all
  int within = 0;
  for (const MessagePoint& point : found.measurements.messages) {
    EXPECT_GT(point.seconds, 0);
    within += point.is_within_node ? 1 : 0;
  }
  EXPECT_GT(within, 0);
  EXPECT_EQ(2 * within, std::ssize(found.measurements.messages));
  ASSERT_TRUE(found.measurements.x_tp && found.measurements.x_dp);
  EXPECT_GE(*found.measurements.x_tp, 0.0);
  EXPECT_LE(*found.measurements.x_dp, 1.0);
}

TEST(ClusterMeasurement, StopsOnAllRanksWhereOneIsAsked) {
  std::atomic<int> asked = 0;
  const MeasuredCluster found =
      measured_on_threads({.nodes = 1, .ranks_per_node = 3},
                          {.is_quick = true, .is_stopped = [&] { return ++asked == 5; }});
  EXPECT_TRUE(found.is_stopped);
  EXPECT_LT(found.measurements.messages.size(), 3U);
  EXPECT_TRUE(found.measurements.collectives.empty());
}

}  // namespace
}  // namespace phalanx
