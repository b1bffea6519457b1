#pragma once
// `bench_comm --scaling`: how the time of collectives grows with ranks and bytes, in our ways and
// in those of Open MPI and Gloo where they are installed, and a model of each.

#include <string>

namespace phalanx::bench {

struct ScalingOptions {
  bool is_wanted = false;
  double seconds = 420;  // for all measurements together
  int most_ranks = 64;
  std::string from;  // a file of `json`, instead of measuring
  std::string json, svg;
};

// Prints tables in Markdown, and writes the files that are wanted.
void run_scaling(const ScalingOptions& options);

}  // namespace phalanx::bench
