#pragma once
// A tiny GPT, trained for 20 steps: its losses against those that a processor had, and the bits of
// a run that was stopped and resumed.

#include <functional>
#include <string>
#include <vector>

#include "phalanx/selftest/report.h"

namespace phalanx {

// The losses of a processor's run with fp32 products.
struct StoredLosses {
  std::string precision;  // "fp32", "bf16"
  std::vector<double> losses;
};
const std::vector<StoredLosses>& stored_losses();

struct TrainingChecks {
  std::string device;  // --device
  // Of processors, for bf16: --matmul-precision; empty: the flag is not given.
  std::string products = {};
  std::vector<StoredLosses> stored = stored_losses();
  std::function<bool()> is_stopped = {};
};

// Files of the runs are in the system's folder for temporary files meanwhile.
void check_training(const TrainingChecks& checks, SelftestReport& report);

// Trains as the checks do, without one.
std::vector<double> tiny_losses(const std::string& precision, const std::string& device,
                                const std::string& products);

}  // namespace phalanx
