#pragma once
// How long work of a queue takes, and what that is of a device's peak.

#include <functional>

#include "phalanx/cuda/driver.h"

namespace phalanx::cuda {

// The median of 7 times, behind two that are not counted.
double median_seconds(Queue queue, int device, const std::function<void()>& enqueue);

// Dense bf16 products a second, as data sheets have them; 0 of a device that is not known.
double peak_flops(const Facts& facts);

}  // namespace phalanx::cuda
