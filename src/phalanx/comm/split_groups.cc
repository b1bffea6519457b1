#include "phalanx/comm/split_groups.h"

#include <utility>

#include "phalanx/base/error.h"

namespace phalanx {

std::optional<Membership> find_membership(std::span<const std::vector<int>> groups, int rank,
                                          int size) {
  std::vector<bool> taken(static_cast<std::size_t>(size), false);
  std::optional<Membership> found;
  for (std::size_t group = 0; group < groups.size(); ++group) {
    PHALANX_CHECK(!groups[group].empty(), "split: group {} is empty", group);
    int position = 0;
    for (const int member : groups[group]) {
      PHALANX_CHECK(member >= 0 && member < size, "split: rank {} of {}", member, size);
      PHALANX_CHECK(!taken[static_cast<std::size_t>(member)], "split: rank {} comes twice", member);
      taken[static_cast<std::size_t>(member)] = true;
      if (member == rank) found = {group, position};
      ++position;
    }
  }
  return found;
}

MessageGroup part_of(const MessageGroup& group, std::span<const int> members, std::string name) {
  MessageGroup part{.name = std::move(name), .ranks = {}};
  part.ranks.reserve(members.size());
  for (const int member : members) {
    part.ranks.push_back(group.ranks[static_cast<std::size_t>(member)]);
  }
  return part;
}

}  // namespace phalanx
