#pragma once
// Every rank's slice goes to every other rank.

#include <cstddef>

#include "phalanx/comm/ucx/patterns.h"
#include "phalanx/comm/ucx/task.h"

namespace phalanx::ucx {

// This rank's slice lies in `output` already. Up to 64 KiB a slice in ceil(log2 n) steps, larger
// ones round a ring: the steps cost least there.
Task gather_slices(Operation& operation, std::byte* output, Slices parts);

}  // namespace phalanx::ucx
