#pragma once
// One number from a measured step: how many times as long as described a device takes for all that
// it does.

#include <string>

#include "phalanx/clock/machine.h"
#include "phalanx/planner/plan.h"

namespace phalanx {

struct CalibratedDevice {
  double factor = 1.0;
  // The machine's, with its times scaled; what its source begins with is `source`.
  DeviceDescription device;
};

// The device with which predict_step() predicts `seconds`. ConfigError if no factor from 1/1,000 to
// 10,000 does: where what a step waits for messages alone takes longer, or is nearly all of it.
CalibratedDevice calibrated_device(const RunPlan& plan, const Machine& machine, double seconds,
                                   const std::string& source);

}  // namespace phalanx
