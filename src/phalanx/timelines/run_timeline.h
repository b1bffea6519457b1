#pragma once
// The timeline of a step as JSON, for events.jsonl, and drawn again from it, for report.html.

#include <string>

#include "phalanx/pipeline/simulator.h"

namespace phalanx {

// A step whose passes were timed, in milliseconds.
struct MeasuredStep {
  Schedule schedule;
  int iterations = 1;  // that it covers: several of an asynchronous schedule
  Timeline timeline;   // by rank of the pipeline; no passes where nothing was trained
};

// The mean cost of each stage's measured passes; messages cost nothing.
Costs measured_costs(const Timeline& timeline, const Placement& placement);

// {"kind", "shape", "ranks", "chunks", "microbatches", "stages", "simulated": [[["F", chunk,
// microbatch, begin, end], ...], ...], "measures"}: as if all passes took equally long. Schedules
// of more passes than a page can show come without "simulated".
std::string schedule_json(const Schedule& schedule);
// The same of a step that ran: simulated with its mean costs, and beside it "iterations",
// "measured", "measured_measures" and "passes", what each rank spent: [{"forward", "backward",
// "weight", "span"}, ...]. Times are milliseconds.
std::string timeline_json(const MeasuredStep& step);

// Simulated over measured, as far as they are there, as SVG for a page; empty where neither is.
// DataError where `json` is not what the two functions above make.
std::string draw_timelines(const std::string& json);

}  // namespace phalanx
