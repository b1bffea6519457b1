#pragma once
// Times of collectives and messages on the ranks of a job, through the communicators that runs use:
// what fitted_cluster() makes a description of.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "phalanx/clock/cluster_fit.h"
#include "phalanx/comm/communicator.h"
#include "phalanx/rendezvous/rank_place.h"

namespace phalanx {

struct ClusterMeasurementOptions {
  int threads = 1;        // of a rank
  bool is_quick = false;  // seconds instead of minutes: smaller messages, each timed shortly
  // A line on what is measured next, on the first rank; between two, whether to end early, which
  // any rank may say.
  std::function<void(const std::string&)> note = [](const std::string&) {};
  std::function<bool()> is_stopped = [] { return false; };
};

// The ranks of a job by nodes. ConfigError if there is one rank, or if nodes have unequal numbers
// of ranks, or ranks of a node do not follow each other.
struct NodeRanks {
  int nodes = 1;
  int ranks_per_node = 1;
};
NodeRanks nodes_of(std::span<const RankPlace> places);

// Groups of 2, 4, ... and all ranks: of each kind all at once. Within a node neighbours; over nodes
// the ranks that have the same number in theirs; and all of the world.
struct MeasuredGroups {
  GroupPlace place;
  std::vector<std::vector<int>> groups;
};
std::vector<MeasuredGroups> measured_groups(const NodeRanks& nodes);

// Called by all ranks of the world at the same time; all get the same answer. It takes four minutes
// at most and 128 MiB for each rank, a quick one seconds and 2 MiB. Without a title and a device.
// After is_stopped() something is missing, and `is_stopped` says so on all ranks.
struct MeasuredCluster {
  ClusterMeasurements measurements;
  bool is_stopped = false;
};
MeasuredCluster measure_cluster(Communicator& world, const NodeRanks& nodes,
                                const ClusterMeasurementOptions& options);

}  // namespace phalanx
