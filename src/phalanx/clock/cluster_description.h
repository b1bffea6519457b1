#pragma once
// What a prediction knows of how devices are joined: nodes of devices, the link within a node, the
// network cards of a node. Rates are bytes a second in one direction, times seconds.

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "phalanx/clock/quantity.h"

namespace phalanx {

struct YamlContents;

// What an all-reduce of so many ranks of a node was measured to take:
// alpha + 2 (n - 1) / n * bytes / rate. Other collectives use the same two numbers.
struct MeasuredRanks {
  std::optional<Quantity> alpha;  // seconds
  std::optional<Quantity> rate;   // bytes/s
};

struct ClusterDescription {
  std::string name;    // "selene"; of a file its path
  std::string title;   // "NVIDIA Selene: DGX A100, eight HDR InfiniBand cards a node"
  std::string device;  // a shipped device's name, or the path of a file beside this one

  Quantity devices_per_node;
  Quantity link;       // of one device to the others of its node
  Quantity card_rate;  // of all network cards of a node

  Quantity nv_alpha;  // a collective within a node: nv_alpha + ranks * nv_alpha_per_rank
  Quantity nv_alpha_per_rank;
  Quantity nv_e;        // share of the link that collectives reach
  Quantity ib_alpha;    // a collective over nodes: times log2(nodes)
  Quantity ib_e;        // share of the cards that collectives reach
  Quantity p2p_e;       // ... that messages between two devices reach
  Quantity x_tp;        // share of tensor-parallel traffic beside a product that stays exposed
  Quantity x_dp;        // the same of data-parallel traffic
  Quantity scale_loss;  // growth of a step for each doubling of devices
  std::optional<Quantity> price;  // of a device for an hour, in any currency
  // By the number of ranks, in place of nv_alpha, nv_alpha_per_rank and nv_e.
  std::map<int, MeasuredRanks> measured_ranks = {};

  friend bool operator==(const ClusterDescription& a, const ClusterDescription& b);
};
// Groups of more ranks in a node are not measured one by one.
inline constexpr int kMostMeasuredRanks = 16;

// x_tp, x_dp and scale_loss where nobody has measured them; of a message between two devices.
Quantity default_x_tp();
Quantity default_x_dp();
Quantity default_scale_loss();

// The section `cluster` of a file; x_tp, x_dp, scale_loss, price and the measured ranks may be
// missing. DataError as DescriptionReader.
ClusterDescription cluster_from_yaml(const YamlContents& contents, const std::string& file);
// A file that cluster_from_yaml() reads as the same description, but for the name.
std::string yaml_of(const ClusterDescription& cluster);

// Its numbers, but for the measured ranks, in the order of the file.
std::vector<NamedQuantity> quantities_of(const ClusterDescription& cluster);
// With every number at the end of its range at which a step is fastest, or slowest.
ClusterDescription at_end(ClusterDescription cluster, RangeEnd end);

}  // namespace phalanx
