#include "phalanx/ops/measured_device.h"

#include <fmt/core.h>

namespace phalanx {

std::string MeasuredDevice::products_text() const {
  return fmt::format("{} ({})", products.name(), products.reason);
}

std::string MeasuredDevice::peak_text() const { return cpu::to_text(peak); }

MeasuredDevice measure_device(std::string_view requested, bool stores_bf16, int threads) {
  return {.products = cpu::choose_products(requested, stores_bf16),
          .peak = cpu::measure_peak(threads)};
}

}  // namespace phalanx
