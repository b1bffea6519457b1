#pragma once
// What a prediction knows of a device: the data sheet, and what products, memory and attention
// reach of it. Rates are FLOP or bytes a second, times seconds.

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/base/dtype.h"
#include "phalanx/clock/measured_shapes.h"
#include "phalanx/clock/quantity.h"

namespace phalanx {

struct YamlContents;

struct ProductRate {
  std::optional<Quantity> peak = {};  // FLOP/s of the device, dense
  std::optional<Quantity> e_gemm =
      {};  // share of the peak that tiles of 256 x 128 reach in a long run
  // In place of the device's, where types differ.
  std::optional<Quantity> attention_forward = {};
  std::optional<Quantity> attention_backward = {};
};

struct DeviceDescription {
  std::string name;   // "h100"; of a file its path
  std::string title;  // "NVIDIA H100 SXM 80 GB"

  // What the data sheet says.
  std::array<ProductRate, kProductTypes.size()> products = {};
  Quantity cores;         // streaming multiprocessors, or processor cores that a rank computes on
  Quantity memory_rate;   // bytes/s
  Quantity memory_bytes;  // a plan's limit is another: libraries and drivers take some of it

  // What was measured.
  Quantity k0;                  // depth that a tile's start and end cost, in elements of K
  Quantity e_tile;              // a tile of half the size computes at this share of the rate
  Quantity e_bw;                // share of memory_rate that ops reach
  Quantity kernel_floor;        // seconds that an op takes at least
  Quantity attention_forward;   // share of the peak that fused attention's useful FLOPs reach
  Quantity attention_backward;  // the same of its backward pass, of 2.5 times the FLOPs
  Quantity host_op;             // seconds in which the host enqueues an op
  Quantity unaligned_64;  // factor on products that have a dimension that is no multiple of 64
  Quantity unaligned_8;   // ... no multiple of 8
  // Bytes up to which what an op moves stays in the caches.
  std::optional<Quantity> cache_bytes = {};
  // Bytes/s of single ops, in place of memory_rate e_bw; by op_rate_key().
  std::map<std::string, Quantity> op_rates = {};
  // Shapes that were measured.
  std::vector<MeasuredProduct> measured_products = {};
  std::vector<MeasuredAttention> measured_attention = {};

  const ProductRate& product(ProductType type) const {
    return products.at(static_cast<std::size_t>(type));
  }
  ProductRate& product(ProductType type) { return products.at(static_cast<std::size_t>(type)); }
  // FLOP/s, and the part of them that products reach; ConfigError if the device has none of this
  // type.
  double peak(ProductType type) const;
  double e_gemm(ProductType type) const;
  // Of attention of the type, whatever its sizes.
  double attention_share(ProductType type, bool is_backward) const;

  friend bool operator==(const DeviceDescription& a, const DeviceDescription& b);
};
bool operator==(const ProductRate& a, const ProductRate& b);

// "rms_norm_forward_bf16": an op by the name of its OpCost and the type of what it mostly moves.
std::string op_rate_key(std::string_view op, DType dtype);

// The section `device` of a file. DataError as DescriptionReader.
DeviceDescription device_from_yaml(const YamlContents& contents, const std::string& file);
// A file that device_from_yaml() reads as the same description, but for the name.
std::string yaml_of(const DeviceDescription& device);

// Its numbers, in the order of the file.
std::vector<NamedQuantity> quantities_of(const DeviceDescription& device);
// With every number at the end of its range at which a step is fastest, or slowest.
DeviceDescription at_end(DeviceDescription device, RangeEnd end);

}  // namespace phalanx
