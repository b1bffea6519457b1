#pragma once
// `phalanx schedule`: what is known of one schedule, as text for people, as a JSON document, and as
// a picture.

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
  // By rank, in activations of one chunk and microbatch: where all is freed at the input gradient,
  // and where all is kept for the weight gradient.
  std::vector<double> peak_freed_at_b;
  std::vector<double> peak_freed_at_w;
  std::vector<Program> programs;  // with messages
  // Why it cannot be trained with, if so.
  std::optional<std::string> training_obstacle;
};

// Generates, verifies, simulates and lowers. ConfigError where there is no such schedule, or none
// within the memory limit; half of an activation is counted until its weight gradient, as "auto"
// does.
ScheduleReport report_on_schedule(std::string_view kind, const ScheduleRequest& request);

// Sends of all ranks.
std::size_t messages_of(const ScheduleReport& report);
// Those between stages of a decoder, which hand on the encoder's output, or its gradient, too.
std::size_t two_stream_messages_of(const ScheduleReport& report);

// One line; `with_programs` adds "programs", a list of actions with messages for every rank.
std::string to_json(const ScheduleReport& report, bool with_programs);

// Lines with the measures, the peaks and the rest, without an end of line.
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
