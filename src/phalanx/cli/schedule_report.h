#pragma once
// `phalanx schedule`: a schedule and its measures as text, as a JSON document and as a picture.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/pipeline/lowering.h"
#include "phalanx/pipeline/schedule.h"
#include "phalanx/pipeline/simulator.h"
#include "phalanx/timelines/timeline_drawing.h"

namespace phalanx {

struct ScheduleReport {
  Schedule schedule;
  Costs costs;
  Simulation simulation;
  // By rank, in activations of one chunk and microbatch: if all is freed after the input gradient,
  // and if all is kept until the weight gradient.
  std::vector<double> peak_freed_at_b;
  std::vector<double> peak_freed_at_w;
  std::vector<Program> programs;  // with messages
  // Why training cannot use it; empty: it can.
  std::optional<std::string> training_obstacle;
};

// Generates, verifies, simulates and lowers. ConfigError if there is no such schedule, or none
// within the memory limit. Between input gradient and weight gradient half of an activation is
// counted, as "auto" does.
ScheduleReport report_on_schedule(std::string_view kind, const ScheduleRequest& request);

// The number of sends of all ranks.
std::size_t messages_of(const ScheduleReport& report);
// The number of sends between stages of a decoder, which carry the encoder's output, or its
// gradient, too.
std::size_t two_stream_messages_of(const ScheduleReport& report);

// One line; `with_programs` adds "programs", a list of actions with messages for every rank.
std::string to_json(const ScheduleReport& report, bool with_programs);

// Lines of measures and peaks, without a final line end.
std::string measures_text(const ScheduleReport& report);
// "verified: ..." in one line.
std::string check_text(const ScheduleReport& report);
// A list of actions for every rank.
std::string programs_text(const ScheduleReport& report);

// Titled, with the measures below it.
TimelinePicture picture_of(const ScheduleReport& report, bool aligned_to_first);

// A line for each kind of schedule.
std::string kinds_text();
// {"kinds": [{"kind", "summary", "update"}, ...]}
std::string kinds_json();

}  // namespace phalanx
