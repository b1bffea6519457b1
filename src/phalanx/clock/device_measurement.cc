#include "phalanx/clock/device_measurement.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <limits>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "phalanx/base/machine.h"
#include "phalanx/ops/cases/case.h"
#include "phalanx/ops/cpu/cpu_backend.h"
#include "phalanx/ops/cpu/precision.h"

namespace phalanx {
namespace {

constexpr std::int64_t kMebibyte = std::int64_t{1} << 20;
constexpr std::int64_t kOperandBytes = 1536 * kMebibyte;
constexpr std::int64_t kQuickOperandBytes = 512 * kMebibyte;
constexpr std::int64_t kWorkspaceBytes = 512 * kMebibyte;
constexpr std::array<std::int64_t, 2> kStreams = {64 * kMebibyte, 512 * kMebibyte};
constexpr std::array<std::int64_t, 1> kQuickStreams = {48 * kMebibyte};

// A linear layer: y [rows, n] = x [rows, k] W^T.
struct LayerSize {
  std::int64_t rows, n, k;
};
// A small model, GPT-2 124M, a wide layer, large squares for the rate of endless products, and
// sizes that are no multiples of 64 or of 8.
constexpr std::array kLayers = {
    LayerSize{1024, 256, 256},  LayerSize{1024, 1024, 256},  LayerSize{1024, 768, 768},
    LayerSize{1024, 3072, 768}, LayerSize{1024, 768, 3072},  LayerSize{4096, 2304, 768},
    LayerSize{256, 768, 768},   LayerSize{2048, 8192, 2048}, LayerSize{1024, 16384, 768},
    LayerSize{4096, 4096, 256}, LayerSize{4096, 4096, 1024}, LayerSize{4096, 4096, 4096},
    LayerSize{1000, 776, 1032}, LayerSize{1001, 771, 1027}};
constexpr std::array kQuickLayers = {LayerSize{256, 256, 256}, LayerSize{512, 768, 256},
                                     LayerSize{1024, 768, 768}, LayerSize{1000, 776, 1032},
                                     LayerSize{501, 771, 515}};

constexpr std::array<std::string_view, 4> kQuickOps = {"attention_forward", "attention_backward",
                                                       "rms_norm", "bias_activation"};

struct Timing {
  double warm_up = 20.0;  // seconds
  double seconds = 0.8;   // of each shape
  int fewest = 3;
};
constexpr Timing kFull = {};
constexpr Timing kQuick = {.warm_up = 0.2, .seconds = 0.01, .fewest = 2};

double seconds_of(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Repetitions of an op. Those in which the calling thread was on its core count, if there are any.
struct Times {
  static constexpr double kOnCore = 0.97;

  int count = 0;
  std::vector<double> undisturbed;
  double best = std::numeric_limits<double>::infinity();

  template <typename Call>
  void take(const Call& call) {
    const double cpu = seconds_of(CLOCK_THREAD_CPUTIME_ID);
    const double wall = seconds_of(CLOCK_MONOTONIC);
    call();
    const double took = seconds_of(CLOCK_MONOTONIC) - wall;
    const double on_core = seconds_of(CLOCK_THREAD_CPUTIME_ID) - cpu;
    if (on_core >= kOnCore * took) undisturbed.push_back(took);
    best = std::min(best, took);
    ++count;
  }
  // The lower quartile: neighbours on a machine make times longer, never shorter.
  double seconds() {
    if (undisturbed.empty()) return best;
    const auto quartile = undisturbed.begin() + static_cast<std::ptrdiff_t>(undisturbed.size() / 4);
    std::ranges::nth_element(undisturbed, quartile);
    return *quartile;
  }
};

class Measurement {
 public:
  Measurement(const MeasurementOptions& options, DType storage)
      : options_(options),
        timing_(options.is_quick ? kQuick : kFull),
        storage_(storage),
        choice_(cpu::choose_products(options.matmul_precision, storage == DType::kBF16)),
        backend_(make_cpu_backend(options.threads, choice_.products)),
        operand_bytes_(options.is_quick ? kQuickOperandBytes : kOperandBytes) {}

  const cpu::ProductChoice& choice() const { return choice_; }
  int jobs() const { return jobs_; }
  int disturbed_jobs() const { return disturbed_jobs_; }

  void warm_up() {
    options_.note(fmt::format("{:.2g} s at full load first", timing_.warm_up));
    run_job(product_case("linear_forward", kQuickLayers[2]), timing_.warm_up);
  }

  void add_products(DeviceMeasurements& to) {
    for (const LayerSize& size : layers()) {
      const auto add = [&](const char* op, std::int64_t m, std::int64_t n, std::int64_t k) {
        if (options_.is_stopped()) return;
        const Measured measured = run_job(product_case(op, size), timing_.seconds);
        to.products.push_back({{m, n, k, 1, product_type(storage_)}, measured.seconds});
      };
      options_.note(
          fmt::format("products {} {}x{}x{}", name_of(storage_), size.rows, size.n, size.k));
      add("linear_forward", size.rows, size.n, size.k);
      add("linear_input_gradient", size.rows, size.k, size.n);
      add("linear_weight_gradient", size.n, size.k, size.rows);
    }
  }

  // Every op of the table at its timed shapes: attention, and what moves memory.
  void add_ops(DeviceMeasurements& to) {
    for (const ops::Case& row : ops::make_case_table().performance) {
      if (options_.is_stopped()) return;
      if (!is_timed(row)) continue;
      options_.note(fmt::format("{} {} {}", row.op, name_of(storage_), row.description));
      const Measured measured = run_job(row, timing_.seconds / 2);
      const std::string_view name = measured.cost.name;
      if (name == "attention_forward" || name == "attention_backward") {
        to.attention.push_back({product_type(storage_), static_cast<double>(measured.cost.flops),
                                name == "attention_backward", measured.seconds});
      } else if (measured.cost.flops == 0) {
        to.ops.push_back({op_rate_key(name, storage_), measured.bytes(), measured.seconds});
      }
    }
  }

  // A norm and a residual on arrays that caches do not hold.
  void add_memory(DeviceMeasurements& to) {
    for (const std::int64_t bytes : streams()) {
      constexpr std::int64_t kColumns = 1024;
      const std::int64_t rows = bytes / (2 * kColumns * size_of(storage_));
      for (const bool is_norm : {true, false}) {
        if (options_.is_stopped()) return;
        options_.note(fmt::format("{} {} of {} MiB", is_norm ? "a norm" : "a sum",
                                  name_of(storage_), bytes / kMebibyte));
        const Measured measured = run_job(
            is_norm ? norm_case(rows, kColumns) : sum_case(rows, kColumns), timing_.seconds);
        to.memory.push_back({measured.bytes(), measured.seconds});
      }
    }
  }

  double smallest_op() {
    const ops::Case row{.op = "fill",
                        .description = "1",
                        .storage = ops::kTimedTypes,
                        .build = [](ops::Operands& operands) {
                          const ops::Fill op{.x = operands.output({1}), .value = 1.0};
                          return ops::make_job(op, ops::fill, {});
                        }};
    return run_job(row, timing_.seconds).seconds;
  }

 private:
  struct Measured {
    OpCost cost;
    double seconds = 0.0;
    double bytes() const { return static_cast<double>(cost.bytes_read + cost.bytes_written); }
  };

  bool is_timed(const ops::Case& row) const {
    if (std::ranges::find(row.storage, storage_) == row.storage.end()) return false;
    // Attention as training has it: of all keys of a sample.
    for (const std::string_view other : {"cache", "window"}) {
      if (row.description.find(other) != std::string::npos) return false;
    }
    const auto is_named = [&](std::string_view name) { return row.op.starts_with(name); };
    if (options_.is_quick) return std::ranges::any_of(kQuickOps, is_named);
    // Products have sizes of their own here.
    return row.op.find("linear") == std::string::npos && !is_named("unfused");
  }
  std::span<const LayerSize> layers() const {
    if (options_.is_quick) return kQuickLayers;
    return kLayers;
  }
  std::span<const std::int64_t> streams() const {
    if (options_.is_quick) return kQuickStreams;
    return kStreams;
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

  // Repeats for the seconds, and at least `fewest` times after one that does not count.
  Measured run_job(const ops::Case& row, double seconds) {
    Arena operands("operands", operand_bytes_);
    Arena workspace("workspace", kWorkspaceBytes);
    Context preparation{.backend = *backend_, .workspace = workspace};
    ops::Operands builder(operands, storage_, preparation);
    const ops::Job job = row.build(builder);
    Context context{.backend = *backend_, .workspace = workspace};
    job.run(context);
    Times times;
    const double begin = seconds_of(CLOCK_MONOTONIC);
    while (times.count < timing_.fewest || seconds_of(CLOCK_MONOTONIC) - begin < seconds) {
      if (times.count > 0 && options_.is_stopped()) break;
      times.take([&] { job.run(context); });
    }
    ++jobs_;
    if (times.undisturbed.empty()) ++disturbed_jobs_;
    return {.cost = job.cost, .seconds = times.seconds()};
  }

  const MeasurementOptions& options_;
  Timing timing_;
  DType storage_;
  cpu::ProductChoice choice_;
  std::unique_ptr<Backend> backend_;
  std::int64_t operand_bytes_;
  int jobs_ = 0;
  int disturbed_jobs_ = 0;
};

std::int64_t last_cache_bytes() {
  const long bytes = ::sysconf(_SC_LEVEL3_CACHE_SIZE);
  return std::max(0L, bytes);
}

}  // namespace

DeviceMeasurements measure_processor(const MeasurementOptions& options) {
  DeviceMeasurements measurements;
  measurements.cores = options.threads;
  measurements.memory_bytes = physical_memory();
  measurements.cache_bytes = last_cache_bytes();
  measurements.smallest_op = std::numeric_limits<double>::infinity();
  std::string products;
  for (const DType storage : options.types) {
    Measurement measurement(options, storage);
    if (storage == options.types.front()) measurement.warm_up();
    if (storage == DType::kBF16) {
      products = fmt::format(", bf16 products {}", measurement.choice().name());
    }
    measurement.add_products(measurements);
    measurement.add_ops(measurements);
    measurement.add_memory(measurements);
    measurements.smallest_op = std::min(measurements.smallest_op, measurement.smallest_op());
    measurements.jobs += measurement.jobs();
    measurements.disturbed_jobs += measurement.disturbed_jobs();
  }
  const std::string processor = processor_name();
  measurements.title = processor.empty() ? "a processor" : processor;
  measurements.source =
      fmt::format("phalanx bench device on {} ({}), {} threads{}{}", host_name(),
                  measurements.title, options.threads, products, options.is_quick ? ", quick" : "");
  return measurements;
}

}  // namespace phalanx
