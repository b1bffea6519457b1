#include "phalanx/ops/cpu/cpu_backend.h"

#include "phalanx/base/progress.h"
#include "phalanx/ops/cpu/execute.h"
#include "phalanx/ops/cpu/flush_to_zero.h"
#include "phalanx/ops/cpu/target.h"
#include "phalanx/ops/host_backend.h"

namespace phalanx {
namespace cpu {
namespace {

// Subnormal numbers are zeros also in what the calling thread computes alone.
struct FlushingDevice {
  CpuDevice device;
};

template <typename Op>
std::int64_t workspace_bytes_of(const FlushingDevice& flushing, const Op& op) {
  return workspace_bytes_of(flushing.device, op);
}

template <typename Op>
void execute(FlushingDevice& flushing, const Op& op, const Tensor& scratch) {
  const FlushToZero mode;
  execute(flushing.device, op, scratch);
  note_progress();
}

}  // namespace
}  // namespace cpu

std::unique_ptr<Backend> make_cpu_backend(int threads, cpu::ProductPrecision products) {
  cpu::active_target();  // chosen, or refused, before the first kernel runs
  return std::make_unique<ops::HostBackend<cpu::FlushingDevice>>(
      cpu::FlushingDevice{cpu::make_device(threads, products)});
}

std::unique_ptr<const WorkspaceSizes> cpu_workspace_sizes(const cpu::CpuDevice& device) {
  return std::make_unique<ops::WorkspaceSizesOf<cpu::CpuDevice>>(device);
}

}  // namespace phalanx
