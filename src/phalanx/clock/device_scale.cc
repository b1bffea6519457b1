#include "phalanx/clock/device_scale.h"

#include <algorithm>

namespace phalanx {
namespace {

// A peak, and the shares of it that a type reaches.
void scale_products(DeviceDescription& device, ProductType type, double factor,
                    const std::string& source) {
  ProductRate& rate = device.product(type);
  if (!rate.peak || !rate.e_gemm) return;
  const double peak = rate.peak->value;
  const double forward = device.attention_share(type, false);
  const double backward = device.attention_share(type, true);
  double largest = std::max({rate.e_gemm->value, forward, backward});
  for (const MeasuredAttention& one : device.measured_attention) {
    if (one.pass.type == type) largest = std::max(largest, one.share.value);
  }
  const double grows = std::max(1.0, largest / factor);
  if (grows > 1.0) rate.peak = measured(peak * grows, source);
  rate.e_gemm = measured(rate.e_gemm->value / factor / grows, source);
  rate.attention_forward = measured(forward / factor / grows, source);
  rate.attention_backward = measured(backward / factor / grows, source);
  for (MeasuredAttention& one : device.measured_attention) {
    if (one.pass.type == type) one.share = measured(one.share.value / factor / grows, source);
  }
}

}  // namespace

DeviceDescription scaled(DeviceDescription device, double factor, const std::string& source) {
  for (const ProductType type : kProductTypes) scale_products(device, type, factor, source);
  // Each type has its own now.
  for (Quantity* const share : {&device.attention_forward, &device.attention_backward}) {
    *share = measured(std::min(1.0, share->value / factor), source);
  }
  const double grows = std::max(1.0, device.e_bw.value / factor);
  if (grows > 1.0) device.memory_rate = measured(device.memory_rate.value * grows, source);
  device.e_bw = measured(device.e_bw.value / factor / grows, source);
  for (auto& [name, rate] : device.op_rates) rate = measured(rate.value / factor, source);
  for (Quantity* const seconds : {&device.kernel_floor, &device.host_op}) {
    *seconds = measured(seconds->value * factor, source);
  }
  return device;
}

}  // namespace phalanx
