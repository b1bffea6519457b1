#include "phalanx/clock/collective_cost.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/base/test_support.h"
#include "phalanx/clock/machine.h"

namespace phalanx {
namespace {

using testing::HasSubstr;
using enum CollectiveKind;

constexpr std::array kAll = {kAllReduce, kReduceScatter, kAllGather, kBroadcast, kAllToAll};

// Nodes of eight: links of 100 GB/s, cards of 80 GB/s a node.
ClusterDescription eights() {
  ClusterDescription cluster;
  cluster.devices_per_node = data_sheet(8, "t");
  cluster.link = data_sheet(125e9, "t");
  cluster.card_rate = data_sheet(100e9, "t");
  cluster.nv_alpha = fitted(20e-6, "t");
  cluster.nv_alpha_per_rank = fitted(3e-6, "t");
  cluster.nv_e = fitted(0.8, "t");
  cluster.ib_alpha = fitted(10e-6, "t");
  cluster.ib_e = fitted(0.8, "t");
  cluster.p2p_e = fitted(0.5, "t");
  return cluster;
}

double seconds(CollectiveKind kind, double bytes, const GroupPlace& place) {
  return collective_seconds(eights(), kind, bytes, place);
}

TEST(CollectiveSeconds, WithinANode) {
  const GroupPlace four{.ranks = 4, .ranks_in_node = 4};
  const double alpha = 32e-6;
  EXPECT_DOUBLE_EQ(seconds(kAllReduce, 1e9, four), alpha + 2 * 0.75 * 0.01);
  EXPECT_DOUBLE_EQ(seconds(kReduceScatter, 1e9, four), alpha + 0.75 * 0.01);
  EXPECT_DOUBLE_EQ(seconds(kAllGather, 1e9, four), alpha + 0.75 * 0.01);
  EXPECT_DOUBLE_EQ(seconds(kBroadcast, 1e9, four), alpha + 0.01);
  EXPECT_DOUBLE_EQ(seconds(kAllToAll, 1e9, four), alpha + 0.75 * 0.01);
}

TEST(CollectiveSeconds, OverNodesTheCardsAreShared) {
  // Four nodes, one rank in each, eight such groups at once: 10 GB/s for each.
  const GroupPlace spread{.ranks = 4, .ranks_in_node = 1, .stride = 8};
  EXPECT_DOUBLE_EQ(seconds(kAllReduce, 1e9, spread), 20e-6 + 2 * 0.75 * 0.1);
  // All 32 devices: 80 GB/s for what passes a node's cards, and the links are slower then.
  const GroupPlace whole{.ranks = 32, .ranks_in_node = 8, .stride = 1};
  EXPECT_DOUBLE_EQ(seconds(kAllReduce, 1e9, whole), 44e-6 + 20e-6 + 2.0 * 31 / 32 * 0.01);
  // Two ranks a node, four devices apart: four groups share the cards.
  const GroupPlace pairs{.ranks = 8, .ranks_in_node = 2, .stride = 4};
  EXPECT_DOUBLE_EQ(seconds(kReduceScatter, 1e9, pairs), 26e-6 + 20e-6 + 0.75 * 0.05);
  // Each of two ranks sends three quarters of its input to other nodes.
  EXPECT_DOUBLE_EQ(seconds(kAllToAll, 1e9, pairs), 46e-6 + 2 * 0.75 * 0.05);
  // A stride beyond a node is not shared by more than a node's devices.
  const GroupPlace far{.ranks = 4, .ranks_in_node = 1, .stride = 64};
  EXPECT_EQ(seconds(kAllReduce, 1e9, far), seconds(kAllReduce, 1e9, spread));
}

TEST(CollectiveSeconds, MeasuredRanksReplaceTheFormula) {
  ClusterDescription cluster = eights();
  cluster.measured_ranks[4] = {.alpha = measured(50e-6, "t"), .rate = measured(50e9, "t")};
  const GroupPlace four{.ranks = 4, .ranks_in_node = 4};
  EXPECT_DOUBLE_EQ(collective_seconds(cluster, kAllReduce, 1e9, four), 50e-6 + 1.5 * 0.02);
  const GroupPlace two{.ranks = 2, .ranks_in_node = 2};
  EXPECT_DOUBLE_EQ(collective_seconds(cluster, kAllReduce, 1e9, two),
                   seconds(kAllReduce, 1e9, two));
}

TEST(CollectiveSeconds, OneRankNeedsNothingAndMoreBytesNeverLess) {
  for (const std::string& name : shipped_cluster_names()) {
    const ClusterDescription cluster = shipped_cluster(name);
    for (const CollectiveKind kind : kAll) {
      EXPECT_EQ(collective_seconds(cluster, kind, 1e9, {}), 0.0);
      for (const GroupPlace& place :
           {GroupPlace{2, 2, 1}, GroupPlace{8, 8, 1}, GroupPlace{64, 8, 1}, GroupPlace{16, 1, 8}}) {
        double before = 0.0;
        for (double bytes = 1; bytes < 1e11; bytes *= 3) {
          const double now = collective_seconds(cluster, kind, bytes, place);
          EXPECT_GT(now, before) << name;
          EXPECT_GE(now, 0.4 * bytes / cluster.link.value / place.ranks) << name;
          before = now;
        }
      }
    }
  }
}

TEST(MessageSeconds, UseTheLinkOrOneDevicesShareOfTheCards) {
  EXPECT_DOUBLE_EQ(message_seconds(eights(), 1e9, true), 20e-6 + 0.01);
  EXPECT_DOUBLE_EQ(message_seconds(eights(), 1e9, false), 10e-6 + 1e9 / (12.5e9 * 0.5));
}

void expect_place(const std::vector<int>& ranks, const GroupPlace& expected) {
  const GroupPlace place = place_of(ranks, 8);
  EXPECT_EQ(place.ranks, expected.ranks);
  EXPECT_EQ(place.ranks_in_node, expected.ranks_in_node);
  EXPECT_EQ(place.stride, expected.stride);
  EXPECT_EQ(place.nodes(), expected.nodes());
}

TEST(GroupPlace, FollowsFromTheRanks) {
  expect_place({0, 1, 2, 3}, {4, 4, 1});
  expect_place({4, 5, 6, 7, 8, 9, 10, 11}, {8, 4, 1});
  expect_place({1, 5, 9, 13}, {4, 2, 4});
  expect_place({3, 11, 19}, {3, 1, 8});
  expect_place({7}, {1, 1, 1});
  EXPECT_EQ((GroupPlace{12, 8, 1}.nodes()), 2);
}

TEST(Collectives, HaveTheNamesThatCommunicatorsRecord) {
  EXPECT_EQ(collective_kind("all_reduce"), kAllReduce);
  EXPECT_EQ(collective_kind("all_to_all"), kAllToAll);
  EXPECT_THAT(error_of<InternalError>([] { collective_kind("barrier"); }),
              HasSubstr("barrier is no collective"));
  EXPECT_EQ(whole_bytes(kAllGather, 10, 4), 40);
  EXPECT_EQ(whole_bytes(kReduceScatter, 10, 4), 10);
}

}  // namespace
}  // namespace phalanx
