#pragma once
// The check of Communicator::split(): ranks are split into disjoint groups.

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace phalanx {

// A rank's place in the groups.
struct Membership {
  std::size_t group = 0;
  int rank = 0;  // within the group
};

// Null if the rank is in no group. InternalError unless the groups are disjoint, and each has at
// least one rank of [0, size) and no other.
std::optional<Membership> find_membership(std::span<const std::vector<int>> groups, int rank,
                                          int size);

}  // namespace phalanx
