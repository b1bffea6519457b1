#pragma once
// Which collective or message a rank is in, for errors, heartbeats and reports.

#include <cstdint>
#include <string>

namespace phalanx {

struct CommPlace {
  int rank = -1;             // of the world; -1: not known
  std::string group{};       // "tp"
  std::string operation{};   // "all_reduce(sum, f32 x 100)"
  std::int64_t number = -1;  // of the call in its group, or of the message between two ranks
};

}  // namespace phalanx
