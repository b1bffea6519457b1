#pragma once
// Where arenas of a CUDA device, and arenas that it copies from and to, have their memory.

#include <memory>

#include "phalanx/tensor/arena.h"

namespace phalanx::cuda {

// Memory of the device: an allocation for each arena.
std::unique_ptr<ArenaMemory> device_memory(int device);
// Pinned memory of the host.
std::unique_ptr<ArenaMemory> pinned_memory();

}  // namespace phalanx::cuda
