#include "phalanx/clock/device_description.h"

#include <fmt/format.h>

#include <type_traits>

#include "phalanx/base/error.h"
#include "phalanx/clock/description_file.h"

namespace phalanx {
namespace {

constexpr std::string_view kHeading = "device";

template <typename Device>
using ProductRateOf = std::conditional_t<std::is_const_v<Device>, const ProductRate, ProductRate>;

constexpr Bounds kMeasuredFactor = {.least = 1e-3, .most = 1e3, .slows = true};

template <typename File, typename Measured>
void visit_measured(File& file, std::string_view prefix, const std::string& name,
                    Measured& measured, const Bounds& bounds) {
  std::map<std::string, Quantity> quantities = named(measured);
  file.quantities(prefix, quantities, bounds);
  if constexpr (!std::is_const_v<Measured>) set_named(quantities, name, measured);
}

// The keys of the file, for a reader and for a writer.
template <typename File, typename Device>
void visit(File& file, Device& device) {
  file.text("title", device.title);
  for (const ProductType type : kProductTypes) {
    file.optional_quantity(fmt::format("peak_{}", name_of(type)), device.product(type).peak, kRate);
  }
  file.quantity("cores", device.cores, kCount);
  file.quantity("memory_rate", device.memory_rate, kRate);
  file.quantity("memory_bytes", device.memory_bytes, kBytes);
  for (const ProductType type : kProductTypes) {
    file.optional_quantity(fmt::format("e_gemm_{}", name_of(type)), device.product(type).e_gemm,
                           kShare);
  }
  file.quantity("k0", device.k0, {.most = 1e6, .slows = true});
  file.quantity("e_tile", device.e_tile, kShare);
  file.quantity("e_bw", device.e_bw, kShare);
  file.quantity("kernel_floor", device.kernel_floor, kSeconds);
  file.quantity("attention_forward", device.attention_forward, kShare);
  file.quantity("attention_backward", device.attention_backward, kShare);
  file.quantity("host_op", device.host_op, kSeconds);
  file.quantity("unaligned_64", device.unaligned_64, kFactor);
  file.quantity("unaligned_8", device.unaligned_8, kFactor);
  for (const ProductType type : kProductTypes) {
    ProductRateOf<Device>& rate = device.product(type);
    file.optional_quantity(fmt::format("attention_forward_{}", name_of(type)),
                           rate.attention_forward, kShare);
    file.optional_quantity(fmt::format("attention_backward_{}", name_of(type)),
                           rate.attention_backward, kShare);
  }
  file.optional_quantity("cache_bytes", device.cache_bytes, kBytes);
  file.quantities("op_rate_", device.op_rates, kRate);
  visit_measured(file, "product_factor_", device.name, device.measured_products, kMeasuredFactor);
  visit_measured(file, "attention_share_", device.name, device.measured_attention, kShare);
}

const Quantity& known(const std::optional<Quantity>& quantity, std::string_view key,
                      ProductType type, const DeviceDescription& device) {
  if (!quantity) {
    throw ConfigError(
        "device {}: it has no {}_{}, so products of {} cannot be predicted: give a "
        "description that has it",
        device.name, key, name_of(type), name_of(type));
  }
  return *quantity;
}

}  // namespace

double DeviceDescription::peak(ProductType type) const {
  return known(product(type).peak, "peak", type, *this).value;
}
double DeviceDescription::e_gemm(ProductType type) const {
  return known(product(type).e_gemm, "e_gemm", type, *this).value;
}

double DeviceDescription::attention_share(ProductType type, bool is_backward) const {
  const ProductRate& rate = product(type);
  if (is_backward) return rate.attention_backward.value_or(attention_backward).value;
  return rate.attention_forward.value_or(attention_forward).value;
}

std::string op_rate_key(std::string_view op, DType dtype) {
  return fmt::format("{}_{}", op, name_of(dtype));
}

bool operator==(const ProductRate& a, const ProductRate& b) {
  return a.peak == b.peak && a.e_gemm == b.e_gemm && a.attention_forward == b.attention_forward &&
         a.attention_backward == b.attention_backward;
}
bool operator==(const DeviceDescription& a, const DeviceDescription& b) {
  return a.name == b.name && yaml_of(a) == yaml_of(b);
}

DeviceDescription device_from_yaml(const YamlContents& contents, const std::string& file) {
  DeviceDescription device;
  device.name = file;
  DescriptionReader reader(contents, file);
  visit(reader, device);
  reader.finish();
  for (const ProductType type : kProductTypes) {
    const ProductRate& rate = device.product(type);
    if (rate.peak.has_value() != rate.e_gemm.has_value()) {
      throw DataError("{}: peak_{} and e_gemm_{} belong together: give both or none", file,
                      name_of(type), name_of(type));
    }
  }
  return device;
}

std::string yaml_of(const DeviceDescription& device) {
  DescriptionWriter writer{std::string(kHeading)};
  visit(writer, device);
  return writer.yaml();
}

std::vector<NamedQuantity> quantities_of(const DeviceDescription& device) {
  std::vector<NamedQuantity> quantities;
  DeviceDescription copy = device;
  QuantityWalk walk([&](const std::string& key, const Quantity& quantity, const Bounds&) {
    quantities.push_back({key, quantity});
  });
  visit(walk, copy);
  return quantities;
}

DeviceDescription at_end(DeviceDescription device, RangeEnd end) {
  QuantityWalk walk([&](const std::string&, Quantity& quantity, const Bounds& bounds) {
    const bool takes_low = bounds.slows == (end == RangeEnd::kFastest);
    quantity.value = takes_low ? quantity.low : quantity.high;
  });
  visit(walk, device);
  return device;
}

}  // namespace phalanx
