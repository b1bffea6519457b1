#pragma once
// The constants of a device from measured times: least squares on the logarithm of time, so that a
// short product counts as much as a long one.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "phalanx/clock/cost_model.h"
#include "phalanx/clock/device_description.h"

namespace phalanx {

struct ProductPoint {
  MatrixProduct product;
  double seconds = 0.0;
};
struct MemoryPoint {
  double bytes = 0.0;
  double seconds = 0.0;
};
struct AttentionPoint {
  AttentionPass pass;
  double flops = 0.0;  // of this pass
  double seconds = 0.0;
};
// One op of a run; the rate of a key is that of all its points together.
struct OpPoint {
  std::string key;  // op_rate_key()
  double bytes = 0.0;
  double seconds = 0.0;
};

struct DeviceMeasurements {
  std::string name;  // of the description
  std::string title;
  std::string source;  // of every number: "measured on ..., 2 threads"
  int cores = 1;
  std::int64_t memory_bytes = 0;
  std::int64_t cache_bytes = 0;  // 0: not known
  std::vector<ProductPoint> products = {};
  std::vector<MemoryPoint> memory = {};  // of ops on arrays larger than the caches
  std::vector<OpPoint> ops = {};
  std::vector<AttentionPoint> attention = {};
  double smallest_op = 0.0;  // seconds of an op of one element,
  double host_op = 0.0;      // and in which the host enqueues it
  // How many ops were timed, and of how many no repetition was without others on the core.
  int jobs = 0;
  int disturbed_jobs = 0;
};

struct FittedDevice {
  DeviceDescription device;
  // Root mean square of ln(predicted / measured).
  double product_error = 0.0;
  double memory_error = 0.0;
};

// A description that predicts the measurements. Peaks and memory_rate are the best that was
// measured, or what the fit says of endless products, if that is more. Points of dimensions that
// are no multiples of 64 set the factors unaligned_64 and unaligned_8, all others the rest. Every
// shape keeps what it took beyond the formula.
// ConfigError if a type has fewer than three products, or if there is nothing of memory or
// attention.
FittedDevice fitted_device(const DeviceMeasurements& measurements);

}  // namespace phalanx
