#pragma once
// The parts of a report below its curves.

#include <span>
#include <string>

#include "phalanx/report/report.h"
#include "phalanx/report/report_run.h"

namespace phalanx {

// Of one run: where its time went, as a whole and in its last step.
std::string time_section(const ReportRun& run);
// Its last evaluations, in numbers.
std::string evaluations_section(const ReportRun& run);
std::string timeline_section(const ReportRun& run, const DrawTimelines& draw);
std::string memory_section(const ReportRun& run);
std::string events_section(const ReportRun& run);
std::string facts_section(const ReportRun& run);
std::string arguments_section(const ReportRun& run);
// Of several: the arguments and facts in which they differ.
std::string differences_section(std::span<const ReportRun> runs);

}  // namespace phalanx
