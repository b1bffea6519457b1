#pragma once
// What a rank reports about itself every kHeartbeatPeriod (timing.h). A member makes it
// (rank_activity.h) and sends it (member.cc); the coordinator hands it to the detector
// (members.cc), which alone judges it (detector.h).

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "phalanx/rendezvous/comm_place.h"

namespace phalanx {

struct Heartbeat {
  static constexpr std::size_t kMostMissing = 64;

  std::uint64_t ticks = 0;      // signs of progress since the rank joined
  std::int64_t iteration = -1;  // the last one that is complete; -1: none
  double step_seconds = 0.0;    // of all steps since the end of the first one
  double waited_seconds = 0.0;  // of these, in waits for other ranks
  std::int64_t steps = 0;       // how many steps these are
  std::string busy{};           // what it does besides training ("saving ..."); empty: nothing
  std::string busy_progress{};  // since it is busy: "3.2 GB, 2 files"
  std::string access{};         // the file that it reads or writes: "writing /runs/a/m.tmp"
  // Limits that the rank's flags and plan set, in seconds: of silence, and of time without a tick
  // (zero: none). Empty: the detector's own limits.
  std::optional<double> silence_limit{};
  std::optional<double> still_limit{};
  struct Wait {
    CommPlace place{};
    std::vector<int> missing{};  // the ranks that it waits for; kMostMissing where they are more
    double seconds = 0.0;
    int missing_count = 0;  // how many ranks it waits for; 0: those that are listed

    bool lists_all() const { return missing_count <= static_cast<int>(missing.size()); }
  };
  std::optional<Wait> wait{};
};

}  // namespace phalanx
