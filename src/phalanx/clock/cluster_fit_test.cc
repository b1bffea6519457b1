#include "phalanx/clock/cluster_fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "phalanx/base/error.h"
#include "phalanx/base/file.h"
#include "phalanx/base/test_support.h"
#include "phalanx/clock/machine.h"

namespace phalanx {
namespace {

using testing::HasSubstr;

constexpr double kSizes[] = {65536, 1048576, 67108864};

void add_collectives(ClusterMeasurements& to, const ClusterDescription& cluster,
                     const GroupPlace& place) {
  for (const CollectiveKind kind : {CollectiveKind::kAllReduce, CollectiveKind::kAllGather,
                                    CollectiveKind::kReduceScatter, CollectiveKind::kAllToAll}) {
    for (const double bytes : kSizes) {
      to.collectives.push_back(
          {kind, place, bytes, collective_seconds(cluster, kind, bytes, place)});
    }
  }
}

void add_messages(ClusterMeasurements& to, const ClusterDescription& cluster, bool is_within) {
  for (const double bytes : kSizes) {
    to.messages.push_back({is_within, bytes, message_seconds(cluster, bytes, is_within)});
  }
}

// What a cluster of these constants would be measured to take.
ClusterMeasurements measurements_of(const ClusterDescription& cluster, int nodes) {
  ClusterMeasurements points{
      .title = "some hosts", .device = "h100", .source = "measured here", .nodes = nodes};
  points.devices_per_node = static_cast<int>(cluster.devices_per_node.value);
  for (const int ranks : {2, 4, 8}) {
    add_collectives(points, cluster, {.ranks = ranks, .ranks_in_node = ranks});
  }
  add_messages(points, cluster, true);
  if (nodes == 1) return points;
  for (int ranks = 2; ranks <= nodes; ranks *= 2) {
    add_collectives(points, cluster, {.ranks = ranks, .stride = points.devices_per_node});
  }
  add_messages(points, cluster, false);
  return points;
}

void expect_near_share(double value, double expected, double share) {
  EXPECT_NEAR(value, expected, share * expected);
}

TEST(ClusterFit, FindsTheConstantsThatMadeThePoints) {
  const ClusterDescription made = shipped_cluster("dgxh100");
  const FittedCluster fit = fitted_cluster(measurements_of(made, 4));
  const ClusterDescription& found = fit.cluster;
  for (const int ranks : {2, 4, 8}) {
    const MeasuredRanks& row = found.measured_ranks.at(ranks);
    expect_near_share(row.alpha->value, made.nv_alpha.value + ranks * made.nv_alpha_per_rank.value,
                      0.01);
    expect_near_share(row.rate->value, made.link.value * made.nv_e.value, 0.01);
  }
  expect_near_share(found.link.value * found.nv_e.value, made.link.value * made.nv_e.value, 0.01);
  expect_near_share(found.nv_alpha.value, made.nv_alpha.value, 0.02);
  expect_near_share(found.nv_alpha_per_rank.value, made.nv_alpha_per_rank.value, 0.05);
  expect_near_share(found.ib_alpha.value, made.ib_alpha.value, 0.02);
  expect_near_share(found.card_rate.value * found.ib_e.value,
                    made.card_rate.value * made.ib_e.value, 0.01);
  expect_near_share(found.card_rate.value * found.p2p_e.value,
                    made.card_rate.value * made.p2p_e.value, 0.01);
  for (const auto& [kind, error] : fit.collective_errors) EXPECT_LT(error, 0.01) << name_of(kind);
  EXPECT_EQ(fit.collective_errors.size(), 4U);
  EXPECT_LT(fit.message_error, 0.01);
  EXPECT_EQ(found.card_rate.origin, Origin::kMeasured);
  EXPECT_EQ(found.card_rate.source, "measured here");
}

TEST(ClusterFit, WhatNothingWasMeasuredOfIsADefaultWithARange) {
  const FittedCluster fit = fitted_cluster(measurements_of(shipped_cluster("dgxh100"), 1));
  for (const NamedQuantity& number : quantities_of(fit.cluster)) {
    const bool is_network = number.key == "card_rate" || number.key == "ib_alpha" ||
                            number.key == "ib_e" || number.key == "p2p_e" || number.key == "x_tp" ||
                            number.key == "x_dp";
    if (!is_network) {
      EXPECT_NE(number.quantity.origin, Origin::kDefault) << number.key;
      continue;
    }
    EXPECT_EQ(number.quantity.origin, Origin::kDefault) << number.key;
    EXPECT_TRUE(number.quantity.is_range()) << number.key;
  }
}

TEST(ClusterFit, ReadsBackWhatItWrites) {
  const TemporaryDirectory directory;
  ClusterMeasurements points = measurements_of(shipped_cluster("selene"), 2);
  points.x_tp = 0.25;
  points.x_dp = 1.5;
  const FittedCluster fit = fitted_cluster(points);
  EXPECT_EQ(fit.cluster.x_tp, measured(0.25, "measured here"));
  EXPECT_EQ(fit.cluster.x_dp.value, 1.0);
  const std::string file = (directory.path() / "cluster.yaml").string();
  write_file_durably(file, yaml_of(fit.cluster));
  const Machine machine = machine_of(file);
  EXPECT_EQ(yaml_of(machine.cluster), yaml_of(fit.cluster));
  EXPECT_EQ(machine.device.name, "h100");
}

TEST(ClusterFit, OneRankANodeHasNoLink) {
  ClusterMeasurements points{.title = "hosts", .device = "h100", .source = "here", .nodes = 2};
  ClusterDescription made = shipped_cluster("dgxh100");
  made.devices_per_node.set(1);
  add_collectives(points, made, {.ranks = 2});
  add_messages(points, made, false);
  const ClusterDescription found = fitted_cluster(points).cluster;
  EXPECT_EQ(found.link.origin, Origin::kDefault);
  expect_near_share(found.card_rate.value * found.ib_e.value,
                    made.card_rate.value * made.ib_e.value, 0.01);
}

TEST(ClusterFit, NeedsACollective) {
  EXPECT_THAT(error_of<ConfigError>([] { fitted_cluster({}); }), HasSubstr("no measured collect"));
}

}  // namespace
}  // namespace phalanx
