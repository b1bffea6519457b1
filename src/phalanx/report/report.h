#pragma once
// report.html: one page about a run, or about several to compare them, made from the files in their
// save directories. The page needs no network. The same files give the same page, except for the
// time at its foot.

#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "phalanx/metrics/run_events.h"
#include "phalanx/metrics/run_sink.h"

namespace phalanx {

inline constexpr std::string_view kReportName = "report.html";

struct ReportRun;

// Draws the JSON object that timelines/run_timeline.h makes of a step as SVG within a page; throws
// where the text is something else. An empty answer: the step is too large for a page.
using DrawTimelines = std::function<std::string(const std::string& timelines)>;

struct ReportOptions {
  DrawTimelines draw_timelines;  // none: no timeline
  EventTime now;                 // at the foot of the page
};

// The page of at least one run.
std::string report_page(std::span<const ReportRun> runs, const ReportOptions& options);

// The page of these directories. UsageError, InputMissingError, IoError.
std::string report_of(const std::vector<std::filesystem::path>& directories,
                      const ReportOptions& options);

// Writes SAVE/report.html when the run ends. It comes behind the sinks whose files it reads.
class ReportSink final : public RunSink {
 public:
  ReportSink(std::filesystem::path directory, DrawTimelines draw)
      : directory_(std::move(directory)), draw_(std::move(draw)) {}

  std::string name() const override { return "report.html"; }
  void end(const RunEnding& ending) override;

 private:
  std::filesystem::path directory_;
  DrawTimelines draw_;
};

}  // namespace phalanx
