#include "phalanx/pipeline/schedule_memory.h"

#include <fmt/format.h>

#include "phalanx/base/memory_need.h"
#include "phalanx/base/numeric.h"

namespace phalanx {

void expect_schedules_fit(double forward_passes, std::string_view remedy) {
  // Measured: from 430 (1f1b) to 760 (gpipe) at the most of a plan.
  constexpr double kBytesOfPass = 600;
  expect_memory(fmt::format("a schedule of {:.3g} forward passes", forward_passes),
                forward_passes * kBytesOfPass, remedy);
}

}  // namespace phalanx
