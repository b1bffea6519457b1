#pragma once
// The device and the kernels that a run computes with, as a value: rooms that only pass it on need
// not know which devices there are.

#include <memory>

#include "phalanx/ops/backend.h"
#include "phalanx/ops/cpu/device.h"

namespace phalanx {

struct DeviceChoice {
  cpu::ProductPrecision products = cpu::ProductPrecision::kFp32;
  // What is planned for; it computes on this machine's processor.
  cpu::Processor processor = cpu::this_processor();

  std::unique_ptr<Backend> make_backend(std::int64_t threads) const;
  // Takes the scratch that make_backend(threads) takes on `processor`.
  std::unique_ptr<Backend> make_planning_backend(std::int64_t threads) const;
};

}  // namespace phalanx
