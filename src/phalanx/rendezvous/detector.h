#pragma once
// Decides which rank has failed, from the heartbeats of all ranks and the ends of their
// connections. It has no thread, no socket and no clock: the coordinator passes events and times,
// and asks.

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/rendezvous/heartbeat.h"
#include "phalanx/rendezvous/rank_place.h"
#include "phalanx/rendezvous/timing.h"

namespace phalanx {

struct Verdict {
  std::vector<int> culprits;               // ranks; messages name the first one first
  ErrorCode code = ErrorCode::kTemporary;  // 75 lost, 124 hang, 74 hang in a file
  std::string reason;           // one line: who, where, since when, in which call, who waits for it
  std::string report;           // a line for every rank with its position
  std::string host{};           // of the first culprit
  double silent_seconds = 0.0;  // since the first culprit's last sign of life
  bool is_reported = false;     // the culprit itself has said the reason
};

class Detector {
 public:
  using Clock = std::chrono::steady_clock;

  struct Limits {
    // Of ranks whose connection is open; the ranks' own limits, from their flags, replace these.
    std::chrono::milliseconds silence = rendezvous::kSilenceLimit;  // on the first rank's host
    std::chrono::milliseconds far_silence = rendezvous::kFarSilenceLimit;  // on other hosts
    std::chrono::milliseconds still = rendezvous::kStillnessLimit;
    std::chrono::milliseconds leaving = rendezvous::kStillnessLimitWhileLeaving;
    // Slow: own compute time over the median's, in windows of so many steps (slow_ranks.h).
    double slow_factor = 1.3;
    int window_steps = 5;
  };

  // `places` in the order of the ranks.
  explicit Detector(std::vector<RankPlace> places);
  Detector(std::vector<RankPlace> places, const Limits& limits);
  Detector(Detector&& other) noexcept;
  Detector& operator=(Detector&& other) noexcept;
  ~Detector();

  // A rank joins once. Silence and stillness count from the moment when all have joined.
  void on_joined(int rank, int pid, Clock::time_point now);
  void on_heartbeat(int rank, Heartbeat heartbeat, Clock::time_point now);
  // Its connection has ended without a goodbye. `how`: "its connection was closed", "killed by
  // SIGKILL". Further texts for the same rank before the next judge() are appended.
  void on_lost(int rank, const std::string& how, Clock::time_point now);
  // It reported that it fails.
  void on_failed(int rank, const std::string& reason, Clock::time_point now);
  // It said goodbye.
  void on_left(int rank);

  // The first verdict, once. To be called several times a second: a gap of more than a second
  // between two calls (the coordinator itself was stopped, or the machine) counts for no rank.
  std::optional<Verdict> judge(Clock::time_point now);

  // Lines for the log since the last call: ranks that have become slow.
  std::vector<std::string> slow_ranks();
  // Likewise: ranks that were silent for more than half of the limit, and are back.
  std::vector<std::string> warnings();
  // "rank 0, which has been saving ... for 12 s (3.2 GB, 2 files)"; empty if no rank is
  // busy.
  std::string busy_ranks(Clock::time_point now) const;

  // How many ranks the functions that look at all of them have looked at, for tests.
  std::uint64_t visited() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace phalanx
