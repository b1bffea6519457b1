#pragma once
// Finds the ranks that keep the others waiting. In the graph an edge leads from a waiting rank to
// each rank that it waits for.

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace phalanx::rendezvous {

struct GraphRank {
  enum class Kind : std::uint8_t {
    kMoving,   // makes progress, is busy, or has sent no heartbeat lately: excuses its waiters
    kStill,    // no progress for longer than the limit, and not in a wait
    kWaiting,  // no progress for longer than the limit, in a wait
    kGone,     // said goodbye: does not excuse its waiters
  };
  Kind kind = Kind::kMoving;
  std::chrono::steady_clock::time_point since{};  // its last progress
  // The wait that it is in, if any; also of a rank that is kMoving.
  std::string group{};
  std::int64_t number = -1;  // of the call in its group; -1: not known
  std::vector<int> missing{};
  bool lists_all = true;  // false: it waits for others, too; anyone who moves excuses it
};

// The ranks that keep the others waiting; messages name the first one first. These are the kStill
// ranks. If there are none, follow the waiting ranks that are not excused to the end of the graph:
// in a circle there, the ranks whose call has the lowest number in its group; without such a group,
// the rank that most others wait for, and of several the one without progress for longest. Empty
// if every waiting rank is excused.
std::vector<int> find_culprits(const std::vector<GraphRank>& ranks);

}  // namespace phalanx::rendezvous
