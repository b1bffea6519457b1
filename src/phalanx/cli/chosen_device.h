#pragma once
// --device and --matmul-precision of commands that compute or plan in this process.

#include <cstdint>

#include "phalanx/ops/device_choice.h"
#include "phalanx/settings/train_config.h"

namespace phalanx {

enum class DeviceUse : std::uint8_t { kCompute, kPlan };

// Of a resolved configuration; a CUDA device is the first that the driver shows. UnavailableError
// where it shows none; ConfigError as choose_products() (ops/cpu/precision.h) says, and to compute
// on a device that only has a name (ops/named_devices.h).
DeviceChoice chosen_device(const TrainConfig& config, DeviceUse use);

}  // namespace phalanx
