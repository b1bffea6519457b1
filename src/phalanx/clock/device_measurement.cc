#include "phalanx/clock/device_measurement.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "phalanx/base/machine.h"
#include "phalanx/clock/op_timer.h"
#include "phalanx/ops/cases/case.h"
#include "phalanx/ops/cpu/precision.h"

namespace phalanx {
namespace {

constexpr std::int64_t kMebibyte = std::int64_t{1} << 20;
// Turns among 256 MiB: what a step reads has left a core's caches when it is read again.
constexpr ProcessorMemory kMemory = {.operand_bytes = 1536 * kMebibyte,
                                     .rotated_bytes = 256 * kMebibyte};
constexpr ProcessorMemory kQuickMemory = {.operand_bytes = 512 * kMebibyte,
                                          .rotated_bytes = 16 * kMebibyte};

// A linear layer: y [rows, n] = x [rows, k] W^T.
struct LayerSize {
  std::int64_t rows, n, k;
};

// What is measured where.
struct Sizes {
  double warm_up;  // seconds
  double seconds;  // of each shape
  int fewest;      // times of each shape
  std::span<const LayerSize> layers;
  std::span<const std::int64_t> streams;          // bytes that an op of memory moves
  std::span<const ops::AttentionSize> attention;  // empty: those of the case table
  std::span<const std::string_view> ops;          // of the case table; empty: all
};

// A small model, GPT-2 124M, a wide layer, large squares for the rate of endless products, and
// sizes that are no multiples of 64 or of 8.
constexpr std::array kLayers = {
    LayerSize{1024, 256, 256},  LayerSize{1024, 1024, 256},  LayerSize{1024, 768, 768},
    LayerSize{1024, 3072, 768}, LayerSize{1024, 768, 3072},  LayerSize{4096, 2304, 768},
    LayerSize{256, 768, 768},   LayerSize{2048, 8192, 2048}, LayerSize{1024, 16384, 768},
    LayerSize{4096, 4096, 256}, LayerSize{4096, 4096, 1024}, LayerSize{4096, 4096, 4096},
    LayerSize{1000, 776, 1032}, LayerSize{1001, 771, 1027}};
constexpr std::array kStreams = {64 * kMebibyte, 512 * kMebibyte};
constexpr Sizes kProcessor = {.warm_up = 20.0,
                              .seconds = 0.8,
                              .fewest = 3,
                              .layers = kLayers,
                              .streams = kStreams,
                              .attention = {},
                              .ops = {}};

constexpr std::array kQuickLayers = {LayerSize{256, 256, 256}, LayerSize{512, 768, 256},
                                     LayerSize{1024, 768, 768}, LayerSize{1000, 776, 1032},
                                     LayerSize{501, 771, 515}};
constexpr std::array kQuickStreams = {48 * kMebibyte};
constexpr std::array<std::string_view, 4> kQuickOps = {"attention_forward", "attention_backward",
                                                       "rms_norm", "bias_activation"};
constexpr Sizes kQuickProcessor = {.warm_up = 0.2,
                                   .seconds = 0.01,
                                   .fewest = 2,
                                   .layers = kQuickLayers,
                                   .streams = kQuickStreams,
                                   .attention = {},
                                   .ops = kQuickOps};

// A device needs larger ones: GPT-2 124M with 8 samples, layers of 1.3B and 8B, large squares.
constexpr std::array kDeviceLayers = {
    LayerSize{8192, 768, 768},   LayerSize{8192, 3072, 768},   LayerSize{8192, 768, 3072},
    LayerSize{8192, 2304, 768},  LayerSize{8192, 50304, 768},  LayerSize{1024, 1024, 1024},
    LayerSize{4096, 6144, 2048}, LayerSize{4096, 8192, 2048},  LayerSize{4096, 2048, 8192},
    LayerSize{4096, 4096, 4096}, LayerSize{4096, 14336, 4096}, LayerSize{8192, 8192, 256},
    LayerSize{8192, 8192, 1024}, LayerSize{8192, 8192, 8192},  LayerSize{1000, 776, 1032},
    LayerSize{1001, 771, 1027}};
constexpr std::array kDeviceStreams = {64 * kMebibyte, 1024 * kMebibyte};
constexpr std::array kDeviceAttention = {ops::AttentionSize{1024, 8, 12, 12, 64},
                                         ops::AttentionSize{2048, 2, 16, 16, 128},
                                         ops::AttentionSize{4096, 1, 16, 4, 128}};
constexpr Sizes kDevice = {.warm_up = 10.0,
                           .seconds = 0.3,
                           .fewest = 5,
                           .layers = kDeviceLayers,
                           .streams = kDeviceStreams,
                           .attention = kDeviceAttention,
                           .ops = {}};
constexpr Sizes kQuickDevice = {.warm_up = 0.5,
                                .seconds = 0.01,
                                .fewest = 3,
                                .layers = kDeviceLayers,
                                .streams = kQuickStreams,
                                .attention = kDeviceAttention,
                                .ops = kQuickOps};

// What an emulated machine computes in seconds.
constexpr std::array kEmulatedLayers = {LayerSize{64, 64, 64}, LayerSize{64, 128, 64},
                                        LayerSize{72, 40, 48}, LayerSize{33, 31, 29}};
constexpr std::array kEmulatedStreams = {kMebibyte / 4};
constexpr std::array kEmulatedAttention = {ops::AttentionSize{32, 1, 2, 2, 64}};
constexpr std::array<std::string_view, 1> kEmulatedOps = {"rms_norm_apply"};
constexpr Sizes kEmulated = {.warm_up = 0.0,
                             .seconds = 0.0,
                             .fewest = 1,
                             .layers = kEmulatedLayers,
                             .streams = kEmulatedStreams,
                             .attention = kEmulatedAttention,
                             .ops = kEmulatedOps};

const Sizes& sizes_of(const MeasurementOptions& options) {
  if (!options.cuda) return options.is_quick ? kQuickProcessor : kProcessor;
  if (options.cuda->machine == CudaMachine::kEmulated) return kEmulated;
  return options.is_quick ? kQuickDevice : kDevice;
}

std::unique_ptr<OpTimer> timer_of(const MeasurementOptions& options, DType storage) {
  if (options.cuda) return device_timer(*options.cuda, storage);
  return processor_timer({options.ranks, options.threads},
                         cpu::choose_products(options.matmul_precision, storage == DType::kBF16),
                         storage, options.is_quick ? kQuickMemory : kMemory);
}

class Measurement {
 public:
  Measurement(const MeasurementOptions& options, DType storage)
      : options_(options),
        sizes_(sizes_of(options)),
        storage_(storage),
        timer_(timer_of(options, storage)) {}

  const TimedPlace& place() const { return timer_->place(); }
  int jobs() const { return jobs_; }
  int disturbed_jobs() const { return disturbed_jobs_; }

  void warm_up() {
    options_.note(fmt::format("{:.2g} s at full load first", sizes_.warm_up));
    constexpr double kSlice = 0.5;  // seconds, between two looks at is_stopped()
    const ops::Case row = product_case("linear_forward", sizes_.layers[2]);
    for (double left = sizes_.warm_up; left > 0.0 && !options_.is_stopped(); left -= kSlice) {
      timer_->time(row, std::min(left, kSlice), 1);
    }
  }

  void add_products(DeviceMeasurements& to) {
    for (const LayerSize& size : sizes_.layers) {
      for (const char* const op :
           {"linear_forward", "linear_input_gradient", "linear_weight_gradient"}) {
        add_product(op, size, to);
      }
    }
    for (const WantedProduct& wanted : options_.wanted.products) {
      add_product(wanted.op, {wanted.rows, wanted.n, wanted.k}, to);
    }
  }

  // Every op of the table at its timed shapes: attention, and what moves memory.
  void add_ops(DeviceMeasurements& to) {
    for (const ops::Case& row : ops::make_case_table().performance) {
      if (is_timed(row)) add_op(row, to);
    }
    for (const ops::AttentionSize& size : sizes_.attention) {
      add_op(ops::attention_case("attention_forward", size), to);
      add_op(ops::attention_case("attention_backward", size), to);
    }
    for (const auto& [op, size] : options_.wanted.attention) {
      add_op(ops::attention_case(op, size), to);
    }
  }

  // A norm and a residual on arrays that caches do not hold.
  void add_memory(DeviceMeasurements& to) {
    for (const std::int64_t bytes : sizes_.streams) {
      constexpr std::int64_t kColumns = 1024;
      const std::int64_t rows = bytes / (2 * kColumns * size_of(storage_));
      for (const bool is_norm : {true, false}) {
        if (options_.is_stopped()) return;
        options_.note(fmt::format("{} {} of {} MiB", is_norm ? "a norm" : "a sum",
                                  name_of(storage_), bytes / kMebibyte));
        const TimedOp timed =
            time(is_norm ? norm_case(rows, kColumns) : sum_case(rows, kColumns), sizes_.seconds);
        to.memory.push_back({timed.bytes(), timed.seconds});
      }
    }
  }

  TimedOp smallest_op() {
    const ops::Case row{.op = "fill",
                        .description = "1",
                        .storage = ops::kTimedTypes,
                        .build = [](ops::Operands& operands) {
                          const ops::Fill op{.x = operands.output({1}), .value = 1.0};
                          return ops::make_job(op, ops::fill, {});
                        }};
    return time(row, sizes_.seconds);
  }

 private:
  bool is_timed(const ops::Case& row) const {
    if (std::ranges::find(row.storage, storage_) == row.storage.end()) return false;
    // Attention as training has it: of all keys of a sample.
    for (const std::string_view other : {"cache", "window"}) {
      if (row.description.find(other) != std::string::npos) return false;
    }
    const auto is_named = [&](std::string_view name) { return row.op.starts_with(name); };
    if (!sizes_.attention.empty() && is_named("attention")) return false;
    if (!sizes_.ops.empty()) return std::ranges::any_of(sizes_.ops, is_named);
    // Products have sizes of their own here.
    return row.op.find("linear") == std::string::npos && !is_named("unfused");
  }

  void add_product(const std::string& op, const LayerSize& size, DeviceMeasurements& to) {
    if (options_.is_stopped()) return;
    options_.note(fmt::format("{} {} {}x{}x{}", op, name_of(storage_), size.rows, size.n, size.k));
    const TimedOp timed = time(product_case(op, size), sizes_.seconds);
    const ProductShape& shape = timed.cost.product;
    to.products.push_back({{shape.m, shape.n, shape.k, 1, product_type(storage_)}, timed.seconds});
  }

  void add_op(const ops::Case& row, DeviceMeasurements& to) {
    if (options_.is_stopped()) return;
    options_.note(fmt::format("{} {} {}", row.op, name_of(storage_), row.description));
    const TimedOp timed = time(row, sizes_.seconds / 2);
    const std::string_view name = timed.cost.name;
    if (name == "attention_forward" || name == "attention_backward") {
      const AttentionShape& shape = timed.cost.attention;
      to.attention.push_back(
          {{product_type(storage_), name == "attention_backward", shape.head_size, shape.keys},
           static_cast<double>(timed.cost.flops),
           timed.seconds});
    } else if (timed.cost.flops == 0) {
      to.ops.push_back({op_rate_key(name, timed.cost.dtype), timed.bytes(), timed.seconds});
    }
  }

  TimedOp time(const ops::Case& row, double seconds) {
    const TimedOp timed = timer_->time(row, seconds, sizes_.fewest);
    ++jobs_;
    if (timed.is_disturbed) ++disturbed_jobs_;
    return timed;
  }

  // Operands have random contents: zeros let a processor's clock rise.
  static ops::Case product_case(std::string op, const LayerSize& size) {
    const auto build = [op, size](ops::Operands& operands) {
      const Tensor x = operands.uniform({size.rows, size.k});
      const Tensor weight = operands.uniform({size.n, size.k});
      const Tensor y = operands.uniform({size.rows, size.n});
      if (op == "linear_forward") {
        return ops::make_job(ops::LinearForward{.y = y, .x = x, .weight = weight, .bias = {}},
                             ops::linear_forward, {});
      }
      if (op == "linear_input_gradient") {
        return ops::make_job(ops::LinearInputGradient{.dx = x, .dy = y, .weight = weight},
                             ops::linear_input_gradient, {});
      }
      const Tensor dweight = operands.uniform(operands.full(), {size.n, size.k});
      return ops::make_job(ops::LinearWeightGradient{.dweight = dweight, .dy = y, .x = x},
                           ops::linear_weight_gradient, {});
    };
    return {.op = std::move(op), .description = "", .storage = ops::kTimedTypes, .build = build};
  }
  static ops::Case norm_case(std::int64_t rows, std::int64_t columns) {
    const auto build = [=](ops::Operands& operands) {
      const ops::NormForward op{.y = operands.output({rows, columns}),
                                .rstd = operands.output(operands.full(), {rows}),
                                .x = operands.uniform({rows, columns}),
                                .weight = operands.uniform({columns})};
      return ops::make_job(op, ops::norm_forward, {});
    };
    return {.op = "norm", .description = "", .storage = ops::kTimedTypes, .build = build};
  }
  static ops::Case sum_case(std::int64_t rows, std::int64_t columns) {
    const auto build = [=](ops::Operands& operands) {
      const ops::Accumulate op{.destination = operands.uniform({rows, columns}),
                               .source = operands.uniform({rows, columns})};
      return ops::make_job(op, ops::accumulate, {});
    };
    return {.op = "sum", .description = "", .storage = ops::kTimedTypes, .build = build};
  }

  const MeasurementOptions& options_;
  const Sizes& sizes_;
  DType storage_;
  std::unique_ptr<OpTimer> timer_;
  int jobs_ = 0;
  int disturbed_jobs_ = 0;
};

std::string threads_text(const MeasurementOptions& options) {
  if (options.cuda) return {};
  return options.ranks == 1
             ? fmt::format(", {} threads", options.threads)
             : fmt::format(", {} ranks of {} threads at once", options.ranks, options.threads);
}

}  // namespace

DeviceMeasurements measure_ops(const MeasurementOptions& options) {
  DeviceMeasurements measurements;
  measurements.smallest_op = std::numeric_limits<double>::infinity();
  measurements.host_op = std::numeric_limits<double>::infinity();
  std::string products;
  for (const DType storage : options.types) {
    Measurement measurement(options, storage);
    if (storage == options.types.front()) measurement.warm_up();
    if (storage == DType::kBF16) {
      products = fmt::format(", bf16 products {}", measurement.place().products);
    }
    measurement.add_products(measurements);
    measurement.add_ops(measurements);
    measurement.add_memory(measurements);
    const TimedOp smallest = measurement.smallest_op();
    measurements.smallest_op = std::min(measurements.smallest_op, smallest.seconds);
    measurements.host_op = std::min(measurements.host_op, smallest.enqueue_seconds);
    measurements.jobs += measurement.jobs();
    measurements.disturbed_jobs += measurement.disturbed_jobs();
    measurements.title = measurement.place().title;
    measurements.cores = measurement.place().cores;
    measurements.memory_bytes = measurement.place().memory_bytes;
    measurements.cache_bytes = measurement.place().cache_bytes;
  }
  measurements.source =
      fmt::format("phalanx bench device on {} ({}){}{}{}", host_name(), measurements.title,
                  threads_text(options), products, options.is_quick ? ", quick" : "");
  return measurements;
}

}  // namespace phalanx
