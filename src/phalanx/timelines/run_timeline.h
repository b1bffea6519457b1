#pragma once
// The timeline of a step as JSON for events.jsonl, and its picture, drawn from the JSON, for
// report.html.

#include <string>

#include "phalanx/pipeline/simulator.h"

namespace phalanx {

// A step with the measured times of its passes, in milliseconds.
struct MeasuredStep {
  Schedule schedule;
  int iterations = 1;  // an asynchronous schedule has several in a step
  Timeline timeline;   // by rank of the pipeline; no passes where nothing was trained
};

// The mean cost of each stage's measured passes; messages cost nothing.
Costs measured_costs(const Timeline& timeline, const Placement& placement);

// {"kind", "shape", "ranks", "chunks", "microbatches", "stages", "simulated": [[["F", chunk,
// microbatch, begin, end], ...], ...], "measures"}, simulated with equal times of all passes.
// "simulated" is missing where there are more passes than a page can show.
std::string schedule_json(const Schedule& schedule);
// The same for a step that ran, simulated with its mean costs; and "iterations", "measured",
// "measured_measures", and "passes", the times of each rank: [{"forward", "backward", "weight",
// "span"}, ...]. Times are milliseconds.
std::string timeline_json(const MeasuredStep& step);

// SVG for a page: the simulated timeline above the measured one; one of them, or an empty text,
// where the JSON has no more. DataError where `json` is not of one of the two functions above.
std::string draw_timelines(const std::string& json);

}  // namespace phalanx
