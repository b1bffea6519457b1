#pragma once
// The charts of a report: of one run, or of several runs over each other.

#include <span>
#include <string>

#include "phalanx/report/run.h"

namespace phalanx {

// The losses of training, raw and smoothed, and of validation. Each chart is there with a linear
// and with a logarithmic axis; the page shows one of them.
std::string loss_charts(std::span<const ReportRun> runs);
// Learning rate, gradient norm, throughput and other values that change during the run.
std::string other_charts(std::span<const ReportRun> runs);

// The share of the peak by iteration is `factor` times `series`: measured by the run, or computed
// from its peak; null where neither is known.
struct ShareOfPeak {
  const Series* series = nullptr;
  double factor = 1;
};
ShareOfPeak share_of_peak(const ReportRun& run);

}  // namespace phalanx
