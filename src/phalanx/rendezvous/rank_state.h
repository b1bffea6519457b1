#pragma once
// What the detector knows of a rank.

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "phalanx/rendezvous/detector.h"

namespace phalanx::rendezvous {

struct RankState {
  enum class Life : std::uint8_t { kAbsent, kHere, kLost, kLeft };
  using Clock = Detector::Clock;

  RankPlace place{};
  int pid = 0;
  Life life = Life::kAbsent;
  Clock::time_point heard{};       // when the last heartbeat came, or it joined
  Clock::time_point moved{};       // when ticks last changed
  Clock::time_point busy_since{};  // with what last.busy says
  Heartbeat last{};
  int times_back = 0;  // from silence

  bool is_here() const { return life == Life::kHere; }
  bool is_busy() const { return !last.busy.empty(); }
};

inline double seconds(RankState::Clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace phalanx::rendezvous
