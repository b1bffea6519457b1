#pragma once
// The constants of a cluster from measured times of collectives and messages: least squares on the
// logarithm of time, so that a short message counts as much as a long one.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "phalanx/clock/cluster_description.h"
#include "phalanx/clock/collective_cost.h"

namespace phalanx {

struct CollectivePoint {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  GroupPlace place;
  double bytes = 0.0;  // as of collective_seconds()
  double seconds = 0.0;
};
// From one rank to another.
struct MessagePoint {
  bool is_within_node = true;
  double bytes = 0.0;
  double seconds = 0.0;
};

struct ClusterMeasurements {
  std::string title;
  std::string device;  // as the description names it
  std::string source;  // of every number: "phalanx bench cluster on ..., 4 ranks"
  int devices_per_node = 1;
  int nodes = 1;
  std::vector<CollectivePoint> collectives = {};
  std::vector<MessagePoint> messages = {};
  // The share of a collective beside a product that the product becomes longer by.
  std::optional<double> x_tp = {};
  std::optional<double> x_dp = {};
};

struct FittedCluster {
  ClusterDescription cluster;
  // Root mean square of ln(predicted / measured): of collectives by their kind, and of messages.
  std::map<CollectiveKind, double> collective_errors = {};
  double message_error = 0.0;
};

// A description that predicts the measurements. Within a node: latency and rate for each number of
// ranks that was measured; `link`, `nv_e` and `nv_alpha` are those of a message, and
// `nv_alpha_per_rank` what further ranks add. Over nodes: `ib_alpha`, and of the cards what
// collectives and messages reach. What nothing was measured of is a default with its range: all of
// the network on one node, the link with one rank a node. ConfigError if there is no collective.
FittedCluster fitted_cluster(const ClusterMeasurements& measurements);

}  // namespace phalanx
