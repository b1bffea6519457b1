#pragma once
// The sections of a report below its charts.

#include <span>
#include <string>

#include "phalanx/report/report.h"
#include "phalanx/report/run.h"

namespace phalanx {

// Of one run: how it spent its time, as a whole and in its last step.
std::string time_section(const ReportRun& run);
// A table of the last evaluations.
std::string evaluations_section(const ReportRun& run);
// What the model answered while it was trained.
std::string answers_section(const ReportRun& run);
std::string timeline_section(const ReportRun& run, const DrawTimelines& draw);
std::string memory_section(const ReportRun& run);
std::string events_section(const ReportRun& run);
std::string facts_section(const ReportRun& run);
std::string arguments_section(const ReportRun& run);
// Of several runs: the arguments and facts in which they differ.
std::string differences_section(std::span<const ReportRun> runs);

}  // namespace phalanx
