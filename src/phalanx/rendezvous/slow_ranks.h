#pragma once
// Finds ranks whose own work (a step's time without the waits) takes longer than the others'.

#include <cstdint>
#include <vector>

#include "phalanx/rendezvous/observed_rank.h"

namespace phalanx::rendezvous {

struct SlowRank {
  int rank = 0;
  double factor = 1.0;   // over the median
  double seconds = 0.0;  // of its own work in a step
};

class SlowRanks {
 public:
  SlowRanks(int world_size, double factor, int window_steps);

  // To be called after each heartbeat. A window ends when every rank has taken `window_steps`
  // steps; the result is then the ranks that have just become slow: slow in three windows on end
  // (one of two ranks: in twenty), and not reported since they were normal for as long. A window in
  // which a rank was busy does not count: a rank that saves is not slow.
  std::vector<SlowRank> on_heartbeat(int rank, const std::vector<ObservedRank>& states);

 private:
  struct Window {
    std::int64_t first_step = 0;  // steps that were complete when the window began
    // As of the last heartbeat that reported a new step.
    std::int64_t steps = 0;
    double own_seconds = 0.0;
    // Seconds of own work per step, one for each heartbeat. Their median counts: a single step
    // that took ten times as long does not make a rank slow.
    std::vector<double> samples{};
    bool is_reported = false;  // as slow
    int other_windows = 0;     // on end, up to now, in which it was not as reported
  };

  static void add_sample(Window& window, const Heartbeat& last);
  std::vector<SlowRank> compare(const std::vector<double>& own);
  void begin_window();

  double factor_;
  int window_steps_;
  int windows_until_slow_;
  bool somebody_busy_ = false;
  std::vector<Window> windows_;
  std::vector<bool> complete_;
  int complete_count_ = 0;
};

}  // namespace phalanx::rendezvous
