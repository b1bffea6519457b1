#pragma once
// Times of products, attention and all other ops on this processor or on a CUDA device, through the
// backend that runs use: what fitted_device() makes a description of.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "phalanx/base/dtype.h"
#include "phalanx/clock/constant_fit.h"
#include "phalanx/clock/wanted_shapes.h"
#include "phalanx/ops/device_choice.h"

namespace phalanx {

struct MeasurementOptions {
  int threads = 1;                                         // of a rank
  int ranks = 1;                                           // that compute at the same time
  std::vector<DType> types = {DType::kF32, DType::kBF16};  // that runs store
  std::string matmul_precision = "auto";                   // of bf16
  std::optional<CudaPlace> cuda = {};                      // nothing: the processor
  WantedShapes wanted = {};                                // beside the usual ones
  bool is_quick =
      false;  // seconds instead of minutes: fewer and smaller shapes, each timed shortly
  // A line on what is measured next; between two, whether to end early.
  std::function<void(const std::string&)> note = [](const std::string&) {};
  std::function<bool()> is_stopped = [] { return false; };
};

// Takes some three minutes on two cores, the first twenty seconds of them to warm up, and 2 GiB of
// memory; a quick one seconds and half a GiB. Ops run at the shapes of GPT-2 124M with 1,024 tokens
// (ops/cases), which stay in large caches, and on arrays that do not. A device takes two minutes
// and 3 GiB of the host's memory; its products and attention are larger. What is missing after
// is_stopped() is left out. UnavailableError without the device.
DeviceMeasurements measure_ops(const MeasurementOptions& options);

}  // namespace phalanx
