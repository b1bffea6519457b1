#pragma once
// Which ranks take longer for their own work than the others, waits left aside.

#include <cstdint>
#include <vector>

#include "phalanx/rendezvous/rank_state.h"

namespace phalanx::rendezvous {

struct SlowRank {
  int rank = 0;
  double factor = 1.0;   // over the median
  double seconds = 0.0;  // of its own work in a step
};

class SlowRanks {
 public:
  SlowRanks(int world_size, double factor, int window_steps);

  // After a heartbeat. Where every rank has taken a window's steps since the last window, the ranks
  // that are newly slow: for three windows on end, and not named since they were last normal. A
  // window in which a rank was busy does not count: saving is not slow.
  std::vector<SlowRank> heard(int rank, const std::vector<RankState>& states);

 private:
  struct Window {
    std::int64_t first_step = 0;  // how many were over when it began
    // As of the last heartbeat with which a step was over.
    std::int64_t steps = 0;
    double own_seconds = 0.0;
    // Seconds of own work in a step, by heartbeat. Of these the median counts: a step that took
    // ten times as long for once makes no rank slow.
    std::vector<double> samples{};
    int slow_windows = 0;  // on end
  };

  static void add_sample(Window& window, const Heartbeat& last);
  std::vector<SlowRank> compare(const std::vector<double>& own);
  void begin_window();

  double factor_;
  int window_steps_;
  bool somebody_busy_ = false;
  std::vector<Window> windows_;
  std::vector<bool> complete_;
  int complete_count_ = 0;
};

}  // namespace phalanx::rendezvous
