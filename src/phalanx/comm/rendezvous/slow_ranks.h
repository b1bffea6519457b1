#pragma once
// Which ranks take longer for their own work than the others, waits left aside.

#include <cstdint>
#include <vector>

#include "phalanx/comm/rendezvous/rank_state.h"

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
    double step_seconds = 0.0;  // as of the heartbeat at its beginning
    double waited_seconds = 0.0;
    std::int64_t steps = 0;
    int slow_windows = 0;  // on end
  };

  std::vector<SlowRank> compare(const std::vector<double>& own);
  void begin_window(const std::vector<RankState>& states);

  double factor_;
  int window_steps_;
  bool somebody_busy_ = false;
  std::vector<Window> windows_;
  std::vector<bool> complete_;
  int complete_count_ = 0;
};

}  // namespace phalanx::rendezvous
