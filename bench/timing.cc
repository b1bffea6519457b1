#include "timing.h"

#include <time.h>

#include <algorithm>
#include <cstddef>

namespace phalanx::bench {
namespace {

constexpr double kOnCore = 0.97;
constexpr std::size_t kFewest = 5, kMost = 1000;

double seconds_of(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

struct Samples {
  std::vector<double> all, clean;

  void take(const TimedBody& body, bool cpu_time) {
    const double on_core = seconds_of(CLOCK_THREAD_CPUTIME_ID);
    const double cpu = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    const double wall = seconds_of(CLOCK_MONOTONIC);
    body.run();
    const double wall_took = seconds_of(CLOCK_MONOTONIC) - wall;
    const double cpu_took = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    const double took = cpu_time ? cpu_took / body.threads : wall_took;
    all.push_back(took);
    if (seconds_of(CLOCK_THREAD_CPUTIME_ID) - on_core >= kOnCore * wall_took) clean.push_back(took);
  }

  Timing timing() {
    const int undisturbed = static_cast<int>(clean.size());
    std::vector<double>& sample = clean.size() >= 3 ? clean : all;
    std::ranges::sort(sample);
    return {sample[sample.size() / 2], sample.front(), undisturbed};
  }
};

}  // namespace

std::vector<Timing> time_by_turns(const TimingOptions& options,
                                  const std::vector<TimedBody>& bodies) {
  for (const TimedBody& body : bodies) body.run();
  std::vector<Samples> samples(bodies.size());
  const double end =
      seconds_of(CLOCK_MONOTONIC) + options.seconds * static_cast<double>(bodies.size());
  const auto goes_on = [&] {
    const std::size_t turns = samples.front().all.size();
    return turns < kFewest || (seconds_of(CLOCK_MONOTONIC) < end && turns < kMost);
  };
  while (goes_on()) {
    for (std::size_t i = 0; i < bodies.size(); ++i) samples[i].take(bodies[i], options.cpu_time);
  }
  std::vector<Timing> timings;
  for (Samples& some : samples) timings.push_back(some.timing());
  return timings;
}

}  // namespace phalanx::bench
