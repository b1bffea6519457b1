#pragma once
// How long a usual step of the run is predicted to take on the machine of --cluster.

#include <cstdint>
#include <string>
#include <vector>

namespace phalanx {

struct StepForecast {
  std::string machine;  // its title
  double seconds = 0.0;
  double low = 0.0, high = 0.0;   // where numbers of the machine are assumed
  std::int64_t global_batch = 0;  // of a usual step
  // What the seconds of `rank`, the one of its pipeline that waits least, go into.
  struct Part {
    std::string name;
    double seconds = 0.0;
  };
  int rank = 0;
  std::vector<Part> parts = {};
  std::string basis = {};  // lines on where the machine's numbers come from
};

// "a step is predicted to take 1.2 s (1.1 to 1.5) on NVIDIA H100: products 0.8 s, ...", the longest
// parts first.
std::string to_text(const StepForecast& forecast);

}  // namespace phalanx
