#pragma once
// A model of the time of a collective: a + share * (b * steps + c * bytes * (n - 1) / n).

#include <cstdint>
#include <span>
#include <string>

namespace phalanx::bench {

struct ScalingCell {
  std::string way;        // "threads", "Open MPI, TCP"
  std::string operation;  // "all_reduce"
  int ranks = 0;
  std::int64_t bytes = 0;
  double seconds = 0;
  int calls = 0;  // of which this is the median
};

struct ScalingModel {
  bool is_logarithmic = false;  // steps: log2 n, rounded up; else n - 1
  bool shares_cores = false;    // share: ranks for each core, at least 1; else 1
  double a = 0;                 // seconds
  double b = 0;                 // seconds of a step
  double c = 0;                 // seconds of a byte
  // Of the time that the model says, relative to the measured one.
  double median_error = 0, worst_error = 0;

  double seconds(int ranks, std::int64_t bytes, int cores) const;
};

// The model, of the four kinds, with the least squares of relative errors; a, b and c are not
// negative. At least one cell.
ScalingModel fit_model(std::span<const ScalingCell> cells, int cores);

}  // namespace phalanx::bench
