#pragma once
// The learning-rate and weight-decay schedules of a run in its checkpoints: what the flags came to,
// among the arguments of a manifest.

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/checkpoint/manifest.h"
#include "phalanx/optim/parameter_schedule.h"

namespace phalanx {

// The schedule as a manifest keeps it, beside the flags.
std::map<std::string, std::string> schedule_arguments(const ParameterSchedule& schedule);

// The schedule that a checkpoint was made with. ConfigError where it says nothing of it, DataError
// where it makes no sense.
ParameterSchedule stored_schedule(const Manifest& manifest);

// What of a schedule is another in a checkpoint.
struct ScheduleDifference {
  std::string_view name;  // as people set it
  std::string asked, stored;
};
// What can change no rate and no decay under the styles that are asked for is left out. ConfigError
// as above.
std::vector<ScheduleDifference> schedule_differences(const ParameterSchedule& asked,
                                                     const Manifest& manifest);
// A line for the columns and one for each difference.
std::string to_table(const std::vector<ScheduleDifference>& differences);

}  // namespace phalanx
