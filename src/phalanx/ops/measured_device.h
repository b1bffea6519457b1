#pragma once
// The device of a run, as its first rank chose and measured it. Code that only passes or prints it
// needs no header of a device.

#include <optional>
#include <string>
#include <string_view>

#include "phalanx/ops/cpu/precision.h"
#include "phalanx/ops/device_choice.h"

namespace phalanx {

struct MeasuredDevice {
  cpu::ProductChoice products;
  cpu::Peak peak;  // of the threads of a host's ranks, as many as there are cores
  // Where the ranks compute, if that is not the processor.
  struct Cuda {
    CudaPlace place;
    std::string name;      // "NVIDIA H100 80GB HBM3"
    std::string products;  // the family: "cuda-sm90-lt130100"
    double flops = 0.0;    // per second, of a large product in the run's storage type
    int driver = 0;        // 13000: the CUDA that the driver has
  };
  std::optional<Cuda> cuda = {};

  DeviceChoice choice() const;
  std::string_view products_name() const { return cuda ? cuda->products : products.name(); }
  // Per second, of a host.
  double peak_flops() const { return cuda ? cuda->flops : 1e9 * peak.of(products.products); }
  double instruction_peak_flops() const {
    return cuda ? cuda->flops : 1e9 * peak.of_instruction(products.products);
  }
  // For people: the family of products with the reason, and the peak rates.
  std::string products_text() const;
  std::string peak_text() const;
  // A warning where no selftest has passed on this device with its driver and library
  // (checked_device.h); empty where one has, of processors and of the emulated device.
  std::string unchecked_text() const;
};

// `requested` is --matmul-precision; ConfigError as choose_products() (cpu/precision.h) says.
MeasuredDevice measure_device(std::string_view requested, bool stores_bf16, int threads);
// UnavailableError without such a device. Products are of operands of `storage`.
MeasuredDevice measure_device(const CudaPlace& place, DType storage);

}  // namespace phalanx
