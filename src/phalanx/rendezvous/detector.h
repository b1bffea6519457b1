#pragma once
// Who of the ranks has failed, from what is heard of them. No thread, no socket, no clock of its
// own: the coordinator feeds it and asks.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/rendezvous/comm_place.h"
#include "phalanx/rendezvous/rank_place.h"

namespace phalanx {

// What a rank says of itself every half second.
struct Heartbeat {
  std::uint64_t ticks = 0;      // things that moved since it joined
  std::int64_t iteration = -1;  // the last one that is over; -1: none
  double step_seconds = 0.0;    // of all steps so far, from the first one's end on
  double waited_seconds = 0.0;  // of these, in waits for others
  std::int64_t steps = 0;       // that these are
  std::string busy{};           // with what; empty: with the run's own work
  std::string moved{};          // since it is busy: "3.2 GB, 2 files"
  std::string access{};         // a file that it reads or writes now: "writing /runs/a/m.tmp"
  // What its flags and its plan say: how long it may be silent, and be without a tick, in seconds.
  // Empty: the detector's own limits. Zero without a tick: for ever.
  std::optional<double> silence_limit{};
  std::optional<double> still_limit{};
  struct Wait {
    CommPlace at{};
    std::vector<int> missing{};  // some of them, where they are many
    double seconds = 0.0;
  };
  std::optional<Wait> wait{};
};

// Of what flags and heartbeats say in seconds.
inline std::chrono::milliseconds milliseconds_of(double seconds) {
  constexpr double kMost = 1e9;
  return std::chrono::milliseconds(static_cast<std::int64_t>(std::min(seconds, kMost) * 1e3));
}

struct Verdict {
  std::vector<int> culprits;               // ranks; the first one is named first everywhere
  ErrorCode code = ErrorCode::kTemporary;  // 75 lost, 124 hang, 74 hang in a file
  std::string reason;           // a line: who, where, since when, in what, who waits for it
  std::string report;           // lines: everybody's position
  std::string host{};           // of the first culprit
  double silent_seconds = 0.0;  // from its last sign of life
};

// How long a rank may say nothing where no flag says otherwise: within a host, and between hosts,
// where the network has outages. And how long it may be without a tick.
inline constexpr std::chrono::milliseconds kSilence = std::chrono::seconds(10);
inline constexpr std::chrono::milliseconds kFarSilence = std::chrono::seconds(60);
inline constexpr std::chrono::milliseconds kStill = std::chrono::seconds(60);

class Detector {
 public:
  using Clock = std::chrono::steady_clock;

  struct Limits {
    // Of a connection that lives. Ranks may say others, which all have from their flags.
    std::chrono::milliseconds silence = kSilence;         // on the first rank's host
    std::chrono::milliseconds far_silence = kFarSilence;  // on other hosts
    std::chrono::milliseconds still = kStill;
    // At least, as soon as one has said goodbye.
    std::chrono::milliseconds leaving = std::chrono::seconds(60);
    double slow_factor = 1.3;  // own compute time over the median's, for three windows
    int window_steps = 5;
  };

  // The places by rank.
  explicit Detector(std::vector<RankPlace> places);
  Detector(std::vector<RankPlace> places, const Limits& limits);
  Detector(Detector&& other) noexcept;
  Detector& operator=(Detector&& other) noexcept;
  ~Detector();

  // Silence and stillness count from when all have joined; a rank joins once.
  void joined(int rank, int pid, Clock::time_point now);
  void heard(int rank, const Heartbeat& heartbeat, Clock::time_point now);
  // The connection is gone without a word. `how`: "its connection was closed", "killed by SIGKILL".
  // What is said of the same rank before the next judge() is added.
  void lost(int rank, const std::string& how, Clock::time_point now);
  // It said that it fails.
  void failed(int rank, const std::string& reason, Clock::time_point now);
  // It said goodbye.
  void left(int rank);

  // To be asked several times a second; times in which it was not asked, for more than a second
  // (the watcher itself was stopped, or the machine), count for nobody. The first verdict, once.
  std::optional<Verdict> judge(Clock::time_point now);

  // Since the last call, a line each: ranks that are newly found slow, ...
  std::vector<std::string> slow_ranks();
  // ... and ranks that were silent for more than half of the limit, and are back.
  std::vector<std::string> warnings();
  // "rank 0, which has been saving ... for 12 s (3.2 GB, 2 files)"; empty where nobody is busy.
  std::string busy_ranks(Clock::time_point now) const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace phalanx
