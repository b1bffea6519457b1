#include "phalanx/ops/cpu/cpu_backend.h"

#include "phalanx/ops/cpu/execute.h"
#include "phalanx/ops/host_backend.h"

namespace phalanx {

std::unique_ptr<Backend> make_cpu_backend(int threads, cpu::ProductPrecision products) {
  return std::make_unique<ops::HostBackend<cpu::CpuDevice>>(cpu::make_device(threads, products));
}

}  // namespace phalanx
