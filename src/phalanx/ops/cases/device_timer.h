#pragma once
// Times of single ops on a CUDA device, or on the emulated one, whose times mean nothing: the calls
// of a case between two marks in the queue.

#include <cstdint>
#include <memory>
#include <vector>

#include "phalanx/cuda/driver.h"
#include "phalanx/ops/cases/case.h"
#include "phalanx/ops/device_choice.h"

namespace phalanx::ops {

class DeviceTimer {
 public:
  // Contents of operands are made by `host_threads` threads. UnavailableError without such a
  // device.
  DeviceTimer(const CudaPlace& place, DType storage, int host_threads);

  struct Times {
    OpCost cost;
    std::vector<double> seconds = {};  // of a call, in ascending order
    double enqueue_seconds = 0.0;      // in which the host enqueues a call
  };
  // Samples until `seconds` have passed, and at least `fewest` of them.
  Times time(const Case& row, double seconds, std::size_t fewest);

  bool is_emulated() const { return choice_.cuda->machine == CudaMachine::kEmulated; }
  const cuda::Facts& facts() const { return facts_; }

 private:
  // Seconds of a call.
  double sample(Context& context, const Job& job, int calls);

  DeviceChoice choice_;
  DType storage_;
  cuda::Facts facts_;
  std::unique_ptr<ArenaMemory> memory_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Backend> planning_;
  std::unique_ptr<Backend> host_;
};

}  // namespace phalanx::ops
