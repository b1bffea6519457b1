#include "phalanx/clock/cost_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "phalanx/base/numeric.h"

namespace phalanx {
namespace {

struct Tile {
  std::int64_t m, n;
  int halvings;  // of 256 x 128
};
constexpr std::array kTiles = {Tile{256, 128, 0}, Tile{128, 256, 0}, Tile{128, 128, 1},
                               Tile{128, 64, 2}, Tile{64, 64, 3}};
// From here on cores start tiles at different times, and the last wave is half full on average.
constexpr double kWholeWaves = 4.0;

double waves_of(double tiles, double cores) {
  const double waves = tiles / cores;
  return waves <= kWholeWaves ? std::ceil(waves) : waves + 0.5;
}

double tiled_seconds(const DeviceDescription& device, const MatrixProduct& product,
                     const Tile& tile, int splits) {
  const auto tiles = static_cast<double>(ceil_div(product.m, tile.m) * ceil_div(product.n, tile.n) *
                                         product.batch * splits);
  const double depth = static_cast<double>(product.k) / splits + device.k0.value;
  const double flops = 2.0 * static_cast<double>(tile.m * tile.n) * depth;
  const double rate = device.peak(product.type) * device.e_gemm(product.type) *
                      std::pow(device.e_tile.value, tile.halvings) / device.cores.value;
  return waves_of(tiles, device.cores.value) * flops / rate;
}

double alignment_factor(const DeviceDescription& device, const MatrixProduct& product) {
  const auto are_multiples = [&](std::int64_t of) {
    return product.m % of == 0 && product.n % of == 0 && product.k % of == 0;
  };
  if (are_multiples(64)) return 1.0;
  return are_multiples(8) ? device.unaligned_64.value : device.unaligned_8.value;
}

}  // namespace

double formula_seconds(const DeviceDescription& device, const MatrixProduct& product) {
  if (product.m <= 0 || product.n <= 0 || product.k <= 0 || product.batch <= 0) return 0.0;
  double best = std::numeric_limits<double>::infinity();
  for (const Tile& tile : kTiles) {
    for (int splits = 1; splits <= kMostSplits; ++splits) {
      best = std::min(best, tiled_seconds(device, product, tile, splits));
    }
  }
  return std::max({best * alignment_factor(device, product),
                   product.bytes() / device.memory_rate.value, device.kernel_floor.value});
}

double product_seconds(const DeviceDescription& device, const MatrixProduct& product) {
  const double seconds = formula_seconds(device, product);
  return seconds > 0.0 ? seconds * product_factor(device.measured_products, product) : 0.0;
}

double memory_seconds(const DeviceDescription& device, double bytes) {
  return bytes / (device.memory_rate.value * device.e_bw.value) + device.kernel_floor.value;
}

double op_seconds(const DeviceDescription& device, std::string_view op, DType dtype, double bytes) {
  const auto own = device.op_rates.find(op_rate_key(op, dtype));
  if (own == device.op_rates.end()) return memory_seconds(device, bytes);
  double rate = own->second.value;
  if (device.cache_bytes && bytes > device.cache_bytes->value) {
    rate = std::min(rate, device.memory_rate.value * device.e_bw.value);
  }
  return bytes / rate + device.kernel_floor.value;
}

double attention_seconds(const DeviceDescription& device, const AttentionPass& pass,
                         double forward_flops, double bytes) {
  const double flops = pass.is_backward ? kAttentionBackwardFlops * forward_flops : forward_flops;
  const double share = attention_share(device.measured_attention, pass,
                                       device.attention_share(pass.type, pass.is_backward));
  return std::max({flops / (device.peak(pass.type) * share), bytes / device.memory_rate.value,
                   device.kernel_floor.value});
}

double optimizer_seconds(const DeviceDescription& device, double parameters) {
  return memory_seconds(device, kOptimizerBytes * parameters);
}

double scale_factor(double scale_loss, int devices) {
  return std::pow(1.0 + scale_loss, std::log2(static_cast<double>(std::max(devices, 1))));
}

}  // namespace phalanx
