#pragma once
// Training steps of a whole model with random tokens, measured.

#include "step_report.h"

namespace phalanx::bench {

// In this process, whose peak memory is then this run's: one call per process.
// ConfigError for a setting that does not exist or cannot run here.
StepReport run_steps(StepSetting setting, bool measure_memory_bandwidth);

}  // namespace phalanx::bench
