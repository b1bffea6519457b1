#pragma once
// The curves of a report: of one run, or of several over each other.

#include <span>
#include <string>

#include "phalanx/report/report_run.h"

namespace phalanx {

// Loss, raw, smoothed and of the validation data, linear and logarithmic: the page shows one.
std::string loss_charts(std::span<const ReportRun> runs);
// Learning rate, gradient norm, throughput and what else changes over the run.
std::string other_charts(std::span<const ReportRun> runs);

// The share of the peak, by iteration: what the run measured, or what follows from its peak; null
// where neither is known. `factor` makes a share of the values.
struct ShareOfPeak {
  const Series* series = nullptr;
  double factor = 1;
};
ShareOfPeak share_of_peak(const ReportRun& run);

}  // namespace phalanx
