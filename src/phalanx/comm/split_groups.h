#pragma once
// What transports share of Communicator::split(): ranks are split into disjoint groups.

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "phalanx/tensor/recorder.h"

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

// Some ranks of a group, by their numbers in it.
MessageGroup part_of(const MessageGroup& group, std::span<const int> members, std::string name);

}  // namespace phalanx
