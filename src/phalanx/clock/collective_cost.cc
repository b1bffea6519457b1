#include "phalanx/clock/collective_cost.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "phalanx/base/error.h"

namespace phalanx {
namespace {

struct NamedKind {
  std::string_view op;
  CollectiveKind kind;
};
constexpr std::array kKinds = {NamedKind{"all_reduce", CollectiveKind::kAllReduce},
                               NamedKind{"reduce_scatter", CollectiveKind::kReduceScatter},
                               NamedKind{"all_gather", CollectiveKind::kAllGather},
                               NamedKind{"broadcast", CollectiveKind::kBroadcast},
                               NamedKind{"all_to_all", CollectiveKind::kAllToAll}};

// How often the bytes of a tensor pass the link of a member of n, or the cards of a node of n.
double passes(CollectiveKind kind, double members) {
  const double others = (members - 1.0) / members;
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return 2.0 * others;
    case CollectiveKind::kReduceScatter:
    case CollectiveKind::kAllGather:
    case CollectiveKind::kAllToAll:
      return others;
    case CollectiveKind::kBroadcast:
      return members > 1.0 ? 1.0 : 0.0;
  }
  return 0.0;
}

struct LinkCost {
  double alpha = 0.0;  // seconds
  double rate = 1.0;   // bytes/s
};

LinkCost link_cost(const ClusterDescription& cluster, int ranks) {
  const auto row = cluster.measured_ranks.find(ranks);
  if (row != cluster.measured_ranks.end()) {
    return {row->second.alpha->value, row->second.rate->value};
  }
  return {cluster.nv_alpha.value + ranks * cluster.nv_alpha_per_rank.value,
          cluster.link.value * cluster.nv_e.value};
}

// How often they pass the link of a rank. Over nodes parts of all ranks pass it, but for what goes
// straight from one rank to another.
double passes_of_link(CollectiveKind kind, const GroupPlace& place) {
  const double in_node = place.ranks_in_node;
  if (kind == CollectiveKind::kAllToAll) return (in_node - 1.0) / place.ranks;
  return passes(kind, place.ranks);
}

// What a node sends to others, of the tensor of one rank.
double bytes_through_cards(CollectiveKind kind, double bytes, const GroupPlace& place) {
  const auto nodes = static_cast<double>(place.nodes());
  if (kind != CollectiveKind::kAllToAll) return passes(kind, nodes) * bytes;
  return place.ranks_in_node * passes(kind, nodes) * bytes;
}

}  // namespace

CollectiveKind collective_kind(std::string_view op) {
  const auto* const found = std::ranges::find(kKinds, op, &NamedKind::op);
  PHALANX_CHECK(found != kKinds.end(), "{} is no collective that has a time", op);
  return found->kind;
}

std::string_view name_of(CollectiveKind kind) {
  return std::ranges::find(kKinds, kind, &NamedKind::kind)->op;
}

GroupPlace place_of(std::span<const int> ranks, int devices_per_node) {
  GroupPlace place{.ranks = static_cast<int>(ranks.size())};
  int in_node = 0;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const bool is_new = i == 0 || ranks[i] / devices_per_node != ranks[i - 1] / devices_per_node;
    in_node = is_new ? 1 : in_node + 1;
    place.ranks_in_node = std::max(place.ranks_in_node, in_node);
    if (i == 0) continue;
    const int step = ranks[i] - ranks[i - 1];
    place.stride = i == 1 ? step : std::min(place.stride, step);
  }
  return place;
}

double whole_bytes(CollectiveKind kind, double contributed, int ranks) {
  return kind == CollectiveKind::kAllGather ? contributed * ranks : contributed;
}

double collective_seconds(const ClusterDescription& cluster, CollectiveKind kind, double bytes,
                          const GroupPlace& place) {
  if (place.ranks <= 1) return 0.0;
  const int nodes = place.nodes();
  double alpha = 0.0;
  double seconds = 0.0;
  if (place.ranks_in_node > 1) {
    const LinkCost link = link_cost(cluster, place.ranks_in_node);
    alpha += link.alpha;
    seconds = passes_of_link(kind, place) * bytes / link.rate;
  }
  if (nodes > 1) {
    const double groups = std::min(static_cast<double>(place.stride),
                                   cluster.devices_per_node.value / place.ranks_in_node);
    const double cards = cluster.card_rate.value * cluster.ib_e.value / std::max(groups, 1.0);
    alpha += cluster.ib_alpha.value * std::log2(static_cast<double>(nodes));
    seconds = std::max(seconds, bytes_through_cards(kind, bytes, place) / cards);
  }
  return alpha + seconds;
}

double message_seconds(const ClusterDescription& cluster, double bytes, bool is_within_node) {
  if (is_within_node) {
    return cluster.nv_alpha.value + bytes / (cluster.link.value * cluster.nv_e.value);
  }
  const double cards = cluster.card_rate.value / cluster.devices_per_node.value;
  return cluster.ib_alpha.value + bytes / (cards * cluster.p2p_e.value);
}

}  // namespace phalanx
