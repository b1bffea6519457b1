#pragma once
// The parts of a check of a device that need the device alone (ops/device_check.h).

#include "phalanx/ops/device_check.h"

namespace phalanx::cuda {

// A check that fails or throws is told; so is one whose two runs differ. UnavailableError without
// the device.
void check_device(DevicePart part, const DeviceCheckOptions& options, CheckSink& sink);

}  // namespace phalanx::cuda
