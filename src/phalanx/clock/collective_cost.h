#pragma once
// Seconds of a message on a cluster: pure functions of its description.

#include <cstdint>
#include <span>
#include <string_view>

#include "phalanx/clock/cluster_description.h"

namespace phalanx {

enum class CollectiveKind : std::uint8_t {
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kBroadcast,
  kAllToAll
};
// Of the names that communicators record: "all_reduce". InternalError for another.
CollectiveKind collective_kind(std::string_view op);
std::string_view name_of(CollectiveKind kind);

// Where the ranks of a group are: `ranks_in_node` of them in each of its nodes, `stride` devices
// apart. While a group talks, those between its ranks do so, too: they share the network cards.
struct GroupPlace {
  int ranks = 1;
  int ranks_in_node = 1;
  int stride = 1;

  int nodes() const { return (ranks + ranks_in_node - 1) / ranks_in_node; }
};
// Of ranks of the world, in rising order; consecutive ranks fill nodes. Of an uneven group: the
// fullest of its nodes, the smallest stride.
GroupPlace place_of(std::span<const int> ranks, int devices_per_node);

// The bytes of the whole tensor, of what a rank puts in: its part of an all-gather, else all of it.
double whole_bytes(CollectiveKind kind, double contributed, int ranks);

// `bytes` of the whole tensor: what is summed, gathered, sent to all; of an all-to-all one rank's
// input. Within a node alpha + bytes that pass a device's link; over nodes also what passes the
// group's share of the cards, the slower of both, and a latency for each doubling of nodes. 0 for
// one rank.
double collective_seconds(const ClusterDescription& cluster, CollectiveKind kind, double bytes,
                          const GroupPlace& place);

// A message from one device to another, over one device's share of the cards, or over the link.
double message_seconds(const ClusterDescription& cluster, double bytes, bool is_within_node);

}  // namespace phalanx
