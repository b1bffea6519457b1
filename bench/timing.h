#pragma once
// Times of bodies that run by turns.

#include <functional>
#include <vector>

namespace phalanx::bench {

struct Timing {
  double median = 0.0;  // seconds
  double best = 0.0;
  int undisturbed = 0;  // repetitions that count
};

struct TimedBody {
  std::function<void()> run;
  int threads = 1;  // that it computes on
};

struct TimingOptions {
  double seconds = 0.5;   // of each body
  bool cpu_time = false;  // CPU time shared out over the threads instead of the clock on the wall
};

// Runs the bodies by turns (A, B, A, B), so that what disturbs one disturbs the others. A
// repetition counts when the calling thread was on its core for 97 % of it; when fewer than three
// do, all count. On a machine that is never quiet, CPU time says more than the clock on the wall.
std::vector<Timing> time_by_turns(const TimingOptions& options,
                                  const std::vector<TimedBody>& bodies);

}  // namespace phalanx::bench
