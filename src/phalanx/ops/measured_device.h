#pragma once
// The device of a run, as its first rank chose and measured it. Code that only passes or prints it
// needs no header of a device.

#include <string>
#include <string_view>

#include "phalanx/ops/cpu/precision.h"
#include "phalanx/ops/device_choice.h"

namespace phalanx {

struct MeasuredDevice {
  cpu::ProductChoice products;
  cpu::Peak peak;  // of the threads of a host's ranks, as many as there are cores

  DeviceChoice choice() const { return {products.products}; }
  std::string_view products_name() const { return products.name(); }
  // Per second, of a host.
  double peak_flops() const { return 1e9 * peak.of(products.products); }
  double instruction_peak_flops() const { return 1e9 * peak.of_instruction(products.products); }
  // For people: the family of products with the reason, and the peak rates.
  std::string products_text() const;
  std::string peak_text() const;
};

// `requested` is --matmul-precision; ConfigError as choose_products() (cpu/precision.h) says.
MeasuredDevice measure_device(std::string_view requested, bool stores_bf16, int threads);

}  // namespace phalanx
