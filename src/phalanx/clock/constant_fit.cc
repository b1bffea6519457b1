#include "phalanx/clock/constant_fit.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "phalanx/base/error.h"
#include "phalanx/clock/pattern_search.h"

namespace phalanx {
namespace {

constexpr std::size_t kFewestProducts = 3;
constexpr double kLeastShare = 0.01;

bool is_aligned(const MatrixProduct& product, std::int64_t to) {
  return product.m % to == 0 && product.n % to == 0 && product.k % to == 0;
}

double squared(double value) { return value * value; }

double log_error(const DeviceDescription& device, const ProductPoint& point) {
  return std::log(product_seconds(device, point.product) / point.seconds);
}

std::vector<ProductType> types_of(const std::vector<ProductPoint>& points) {
  std::vector<ProductType> types;
  for (const ProductType type : kProductTypes) {
    const auto count = std::ranges::count_if(points, [&](const ProductPoint& point) {
      return point.product.type == type && is_aligned(point.product, 64);
    });
    if (count == 0) continue;
    if (static_cast<std::size_t>(count) < kFewestProducts) {
      throw ConfigError("{} measured products of {}: {} at least are needed for a fit", count,
                        name_of(type), kFewestProducts);
    }
    types.push_back(type);
  }
  if (types.empty()) throw ConfigError("no measured products: nothing can be fitted");
  return types;
}

double best_rate(const std::vector<ProductPoint>& points, ProductType type) {
  double best = 0.0;
  for (const ProductPoint& point : points) {
    if (point.product.type != type) continue;
    best = std::max(best, point.product.flops() / point.seconds);
  }
  return best;
}

// The values that a search tries: ln of k0 and e_tile, then of the rate of each type.
constexpr std::size_t kShared = 2;

void set_place(DeviceDescription& device, const std::vector<ProductType>& types,
               const std::vector<double>& place) {
  device.k0.set(std::exp(place[0]) - 1.0);
  device.e_tile.set(std::exp(place[1]));
  for (std::size_t i = 0; i < types.size(); ++i) {
    // The peak alone, which is shared out into peak and e_gemm at the end.
    device.product(types[i]).peak->set(std::exp(place[kShared + i]));
  }
}

double sum_of_squares(const DeviceDescription& device, const std::vector<ProductPoint>& points) {
  double sum = 0.0;
  for (const ProductPoint& point : points) sum += squared(log_error(device, point));
  return sum;
}

// From one start; several are tried, for small products are ambiguous.
std::vector<double> searched(DeviceDescription device, const std::vector<ProductType>& types,
                             const std::vector<ProductPoint>& points, double k0, double e_tile) {
  std::vector<SearchAxis> axes = {
      {.start = std::log1p(k0), .step = 0.5, .least = 0.0, .most = std::log(8192.0)},
      {.start = std::log(e_tile), .step = 0.1, .least = std::log(0.2), .most = 0.0}};
  for (const ProductType type : types) {
    const double rate = std::log(best_rate(points, type));
    axes.push_back({.start = rate, .step = 0.1, .least = rate - 1.0, .most = rate + 2.0});
  }
  return pattern_search(axes, [&](const std::vector<double>& place) {
    set_place(device, types, place);
    return sum_of_squares(device, points);
  });
}

// Of the points that are aligned to `better` and not to `worse`: what they take beyond the rest.
Quantity alignment_of(const DeviceDescription& device, const std::vector<ProductPoint>& points,
                      bool (*counts)(const MatrixProduct&), const std::string& source) {
  double sum = 0.0;
  int count = 0;
  for (const ProductPoint& point : points) {
    if (!counts(point.product)) continue;
    sum -= log_error(device, point);
    ++count;
  }
  if (count == 0) return assumed(1.0, 1.0, 1.5, "no such product was measured");
  return measured(std::max(1.0, std::exp(sum / count)), source);
}

double fit_products(DeviceDescription& device, const DeviceMeasurements& measurements) {
  const std::vector<ProductType> types = types_of(measurements.products);
  std::vector<ProductPoint> aligned;
  std::ranges::copy_if(measurements.products, std::back_inserter(aligned),
                       [](const ProductPoint& point) { return is_aligned(point.product, 64); });
  for (const ProductType type : types) {
    device.product(type) = {.peak = measured(best_rate(aligned, type), measurements.source),
                            .e_gemm = measured(1.0, measurements.source)};
  }
  double least = std::numeric_limits<double>::infinity();
  std::vector<double> best;
  for (const double k0 : {0.0, 32.0, 256.0}) {
    for (const double e_tile : {0.95, 0.65}) {
      std::vector<double> place = searched(device, types, aligned, k0, e_tile);
      DeviceDescription tried = device;
      set_place(tried, types, place);
      const double sum = sum_of_squares(tried, aligned);
      if (sum < least) {
        least = sum;
        best = std::move(place);
      }
    }
  }
  set_place(device, types, best);
  for (const ProductType type : types) {
    ProductRate& rate = device.product(type);
    const double fitted_rate = rate.peak->value;
    rate.peak->set(std::max(fitted_rate, best_rate(measurements.products, type)));
    rate.e_gemm->set(fitted_rate / rate.peak->value);
  }
  const auto is_between = [](const MatrixProduct& product) {
    return is_aligned(product, 8) && !is_aligned(product, 64);
  };
  const auto is_odd = [](const MatrixProduct& product) { return !is_aligned(product, 8); };
  device.unaligned_64 =
      alignment_of(device, measurements.products, is_between, measurements.source);
  device.unaligned_8 = alignment_of(device, measurements.products, is_odd, measurements.source);
  return std::sqrt(least / static_cast<double>(aligned.size()));
}

double fit_memory(DeviceDescription& device, const DeviceMeasurements& measurements) {
  if (measurements.memory.empty()) {
    throw ConfigError("no measured ops of memory: nothing can be fitted");
  }
  double best = 0.0;
  double log_rate = 0.0;
  const auto rate_of = [&](const MemoryPoint& point) {
    return point.bytes / std::max(point.seconds - measurements.smallest_op, 1e-3 * point.seconds);
  };
  for (const MemoryPoint& point : measurements.memory) {
    best = std::max(best, rate_of(point));
    log_rate += std::log(rate_of(point));
  }
  const auto count = static_cast<double>(measurements.memory.size());
  const double fitted_rate = std::exp(log_rate / count);
  device.memory_rate = measured(best, measurements.source);
  device.e_bw = measured(fitted_rate / best, measurements.source);
  device.kernel_floor = measured(measurements.smallest_op, measurements.source);
  double squares = 0.0;
  for (const MemoryPoint& point : measurements.memory) {
    squares += squared(std::log(memory_seconds(device, point.bytes) / point.seconds));
  }
  return std::sqrt(squares / count);
}

// Bytes by seconds of all points of a key.
void set_op_rates(DeviceDescription& device, const DeviceMeasurements& measurements) {
  std::map<std::string, MemoryPoint> sums;
  for (const OpPoint& point : measurements.ops) {
    MemoryPoint& sum = sums[point.key];
    sum.bytes += point.bytes;
    sum.seconds += std::max(point.seconds - measurements.smallest_op, 1e-3 * point.seconds);
  }
  for (const auto& [key, sum] : sums) {
    device.op_rates[key] = measured(sum.bytes / sum.seconds, measurements.source);
  }
}

// Of the peak, by this pass.
double share_of(const DeviceDescription& device, const AttentionPoint& point) {
  return std::clamp(point.flops / point.seconds / device.peak(point.pass.type), kLeastShare, 1.0);
}

// The geometric mean of the shares of the peak; nothing if no point counts.
std::optional<Quantity> attention_share(const DeviceDescription& device,
                                        const DeviceMeasurements& measurements, bool is_backward,
                                        std::optional<ProductType> type) {
  double sum = 0.0;
  int count = 0;
  for (const AttentionPoint& point : measurements.attention) {
    if (point.pass.is_backward != is_backward || (type && point.pass.type != *type)) continue;
    sum += std::log(share_of(device, point));
    ++count;
  }
  if (count == 0) return {};
  return measured(std::clamp(std::exp(sum / count), kLeastShare, 1.0), measurements.source);
}

void set_attention(DeviceDescription& device, const DeviceMeasurements& measurements) {
  const auto forward = attention_share(device, measurements, false, {});
  const auto backward = attention_share(device, measurements, true, {});
  if (!forward || !backward) {
    throw ConfigError("no measured attention, forward and backward: nothing can be fitted");
  }
  device.attention_forward = *forward;
  device.attention_backward = *backward;
  for (const ProductType type : kProductTypes) {
    ProductRate& rate = device.product(type);
    rate.attention_forward = attention_share(device, measurements, false, type);
    rate.attention_backward = attention_share(device, measurements, true, type);
  }
}

// Several points of a shape, such as the passes of a square layer, become one.
class MeanOfPoints {
 public:
  void add(double value) {
    log_ += std::log(value);
    ++count_;
  }
  Quantity quantity(const std::string& source) const {
    return measured(std::exp(log_ / count_), source);
  }

 private:
  double log_ = 0.0;
  int count_ = 0;
};

// What every shape took beyond the formula.
void set_measured_shapes(DeviceDescription& device, const DeviceMeasurements& measurements) {
  using Shape = std::tuple<ProductType, std::int64_t, std::int64_t, std::int64_t>;
  std::map<Shape, MeanOfPoints> products;
  for (const ProductPoint& point : measurements.products) {
    const MatrixProduct& product = point.product;
    products[{product.type, product.m, product.n, product.k}].add(
        std::exp(-log_error(device, point)));
  }
  for (const auto& [shape, mean] : products) {
    const auto& [type, m, n, k] = shape;
    device.measured_products.push_back({{m, n, k, 1, type}, mean.quantity(measurements.source)});
  }
  using Pass = std::tuple<ProductType, bool, std::int64_t, std::int64_t>;
  std::map<Pass, MeanOfPoints> passes;
  for (const AttentionPoint& point : measurements.attention) {
    const AttentionPass& pass = point.pass;
    passes[{pass.type, pass.is_backward, pass.head_size, pass.keys}].add(share_of(device, point));
  }
  for (const auto& [shape, mean] : passes) {
    const auto& [type, is_backward, head_size, keys] = shape;
    device.measured_attention.push_back(
        {{type, is_backward, head_size, keys}, mean.quantity(measurements.source)});
  }
}

}  // namespace

FittedDevice fitted_device(const DeviceMeasurements& measurements) {
  FittedDevice fit;
  DeviceDescription& device = fit.device;
  device.name = measurements.name;
  device.title = measurements.title;
  device.cores = measured(measurements.cores, measurements.source);
  device.memory_bytes =
      measured(static_cast<double>(measurements.memory_bytes), measurements.source);
  device.host_op = measured(measurements.host_op, measurements.source);
  if (measurements.cache_bytes > 0) {
    device.cache_bytes =
        measured(static_cast<double>(measurements.cache_bytes), measurements.source);
  }
  // Neither the caches nor the factors of alignment count while products are fitted.
  device.unaligned_64 = device.unaligned_8 = measured(1.0, measurements.source);
  fit.memory_error = fit_memory(device, measurements);
  fit.product_error = fit_products(device, measurements);
  device.k0 = measured(device.k0.value, measurements.source);
  device.e_tile = measured(device.e_tile.value, measurements.source);
  set_op_rates(device, measurements);
  set_attention(device, measurements);
  set_measured_shapes(device, measurements);
  return fit;
}

}  // namespace phalanx
