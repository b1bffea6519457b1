#pragma once
// The memory of schedules: lists of actions, which grow with ranks and microbatches.

#include <string_view>

namespace phalanx {

// ConfigError where schedules with this many forward passes on all ranks together do not fit into
// the memory that is available, as they are generated, verified and lowered. `remedy`: "give ...".
void expect_schedules_fit(double forward_passes, std::string_view remedy);

}  // namespace phalanx
