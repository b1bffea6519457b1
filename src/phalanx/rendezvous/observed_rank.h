#pragma once
// What the detector knows of a rank.

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "phalanx/rendezvous/detector.h"

namespace phalanx::rendezvous {

struct ObservedRank {
  enum class Life : std::uint8_t { kAbsent, kHere, kLost, kLeft };
  using Clock = Detector::Clock;

  RankPlace place{};
  int pid = 0;
  Life life = Life::kAbsent;
  Clock::time_point last_heard{};  // time of the last heartbeat, or of joining
  Clock::time_point last_moved{};  // when the ticks last changed
  Clock::time_point busy_since{};  // with heartbeat.busy
  Heartbeat heartbeat{};           // the last one
  int times_back = 0;              // how often it was silent and came back

  bool is_here() const { return life == Life::kHere; }
  bool is_busy() const { return !heartbeat.busy.empty(); }
};

inline double seconds(ObservedRank::Clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace phalanx::rendezvous
