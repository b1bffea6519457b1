#pragma once
// The learning-rate and weight-decay schedules of a run in its checkpoints: the values that the
// flags resulted in, as arguments of a manifest.

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/checkpoint/manifest.h"
#include "phalanx/optim/parameter_schedule.h"

namespace phalanx {

// The schedule as a manifest keeps it, beside the flags.
std::map<std::string, std::string> schedule_arguments(const ParameterSchedule& schedule);

// The schedule that a checkpoint was made with. ConfigError where the manifest has none, DataError
// where it makes no sense.
ParameterSchedule stored_schedule(const Manifest& manifest);

// A value of the schedule that differs from the checkpoint's.
struct ScheduleDifference {
  std::string_view name;  // the flag that sets it
  std::string asked, stored;
};
// Values that have no effect under the chosen styles are left out. ConfigError as above.
std::vector<ScheduleDifference> schedule_differences(const ParameterSchedule& asked,
                                                     const Manifest& manifest);
// A table: a head line, and a line for each difference.
std::string to_table(const std::vector<ScheduleDifference>& differences);

}  // namespace phalanx
