#pragma once
// The ops of the case table timed on a CUDA device, or on the emulated one.

#include <string>
#include <vector>

#include "phalanx/ops/cases/case.h"
#include "phalanx/ops/cuda_library.h"
#include "phalanx/ops/device_choice.h"

namespace phalanx::bench {

struct DeviceOptions {
  CudaPlace place;
  DType storage = DType::kF32;
  double seconds = 0.5;  // per row
  bool json = false;
};

// Prints a line for each row: the time of a call between two marks in the queue, and its rate
// against a large product that is timed in the same run, or against the memory's rate.
// UnavailableError without such a device.
void time_on_device(const DeviceOptions& options, const std::vector<ops::Case>& rows);

}  // namespace phalanx::bench
