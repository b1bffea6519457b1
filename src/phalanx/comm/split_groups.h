#pragma once
// Splits of a communicator into disjoint groups.

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace phalanx {

// Where a rank is among groups.
struct Membership {
  std::size_t group = 0;
  int rank = 0;  // within the group
};

// Null where the rank is in none. InternalError unless the groups are disjoint, each of at least
// one rank of [0, size).
std::optional<Membership> find_membership(std::span<const std::vector<int>> groups, int rank,
                                          int size);

}  // namespace phalanx
