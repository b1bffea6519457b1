#pragma once
// Where in the messages a rank is: what errors, watchers and reports say.

#include <cstdint>
#include <string>

namespace phalanx {

struct CommPlace {
  int rank = -1;             // of the world; -1: not known
  std::string group{};       // "tp"
  std::string operation{};   // "all_reduce(sum, f32 x 100)"
  std::int64_t number = -1;  // of the group's calls, or of the messages between two ranks
};

}  // namespace phalanx
