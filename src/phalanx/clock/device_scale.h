#pragma once
// A device that is slower or faster in all that it does.

#include <string>

#include "phalanx/clock/device_description.h"

namespace phalanx {

// Every time of an op becomes this many times as long: products, attention, what moves memory, the
// floors of ops. Shares are scaled, and rates of the data sheet where a share would be above 1. The
// numbers that change are measured, from this source. What products and memory take at the rate of
// the data sheet alone stays.
DeviceDescription scaled(DeviceDescription device, double factor, const std::string& source);

}  // namespace phalanx
