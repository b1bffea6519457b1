#pragma once
// What the environment tells the emulated driver, as it tells a driver of NVIDIA's.

#include <string_view>

namespace phalanx::cuda::emulated {

// Devices that PHALANX_EMULATED_DEVICES says are there, 1 without.
int devices_there();
// CUDA that PHALANX_EMULATED_DRIVER says the driver is of (12020 is CUDA 12.2, 0 is no driver),
// the one that is needed without.
int driver_version();

// How many of the devices CUDA_VISIBLE_DEVICES shows: a list of numbers, with commas between them,
// which ends in front of the first that is no device; a number twice shows none. Null: all.
int visible_devices(int devices, const char* list);
// Of the environment.
int visible_devices(int devices);

}  // namespace phalanx::cuda::emulated
