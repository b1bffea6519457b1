#pragma once
// Who keeps the others waiting: a graph of ranks with an edge from each that waits to those that it
// misses.

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace phalanx::rendezvous {

struct GraphRank {
  enum class Kind : std::uint8_t {
    kMoving,   // or busy, or not heard of lately: who waits for it is excused
    kStill,    // for longer than the limit, and in no wait
    kWaiting,  // still for longer than the limit, in a wait
    kGone,     // said goodbye: nobody is excused by it
  };
  Kind kind = Kind::kMoving;
  std::chrono::steady_clock::time_point since{};  // still for so long
  // Of who waits, also where it is kMoving.
  std::string group{};
  std::int64_t number = -1;  // of the group's calls; -1: not known
  std::vector<int> missing{};
};

// The ranks whose fault it is that others wait, by rank; the one to be named first is first. Ranks
// that are still and wait for nobody; where there are none, those at the end of the graph that
// waits for nobody who moves: of a circle the ones whose group's call has the lowest number, else
// the one that most others miss, else the one that has been still for longest. Empty where
// everybody is excused.
std::vector<int> find_culprits(const std::vector<GraphRank>& ranks);

}  // namespace phalanx::rendezvous
