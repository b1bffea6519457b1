// Every op at the shapes of GPT-2 124M with 4 x 256 tokens (ops/cases), against its limit measured
// in the same run: the multiply-add peak for matrix products, memory bandwidth for the rest; and
// products by turns with oneDNN's. Prints one table; docs/performance.md says how to read it.

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "bench_main.h"
#include "device_ops.h"
#include "onednn_product.h"
#include "phalanx/base/error.h"
#include "phalanx/ops/cases/case.h"
#include "phalanx/ops/cpu/cpu_backend.h"
#include "phalanx/ops/cpu/parallel.h"
#include "phalanx/ops/cpu/precision.h"
#include "phalanx/ops/cpu/target.h"
#include "phalanx/ops/ref/ref_backend.h"
#include "timing.h"
#include "witness.h"

namespace phalanx {
namespace {

constexpr int kPeakTimes = 10;

// Of the peak of the family that multiplies, for every matrix product. On AMX's tiles half of the
// time goes into bringing operands from the second-level cache.
double goal_of(cpu::ProductPrecision products) {
  switch (products) {
    case cpu::ProductPrecision::kFp32:
      return 0.88;
    case cpu::ProductPrecision::kBf16:
      return 0.85;
    case cpu::ProductPrecision::kAmx:
      break;
  }
  return 0.45;
}
constexpr std::int64_t kOperandBytes = std::int64_t{3} << 30;
constexpr std::int64_t kWorkspaceBytes = std::int64_t{1} << 30;
constexpr std::int64_t kStreamBytes = std::int64_t{256} << 20;

struct Options {
  int threads = 2;
  std::string dtype = "f32";
  std::string filter;
  std::string device = "cpu";
  std::string matmul_precision = "auto";
  double seconds = 0.5;  // per row
  bool cpu_time = false;
  bool scaling = false;
  bool no_onednn = false;
  bool json = false;

  bench::TimingOptions timing() const { return {.seconds = seconds, .cpu_time = cpu_time}; }
};

using bench::Timing;

// Bytes per second, counting every operand once.
struct Bandwidth {
  double read = 0.0, copy = 0.0, triad = 0.0;
};

Bandwidth measure_bandwidth(const Options& options) {
  Arena arena("streams", 3 * kStreamBytes);
  const std::int64_t count = kStreamBytes / size_of(DType::kF32);
  const auto array = [&] { return arena.allocate(DType::kF32, {count}).span<float>(); };
  const auto a = array(), b = array(), c = array();
  constexpr std::int64_t kTask = 1 << 16;
  const std::int64_t tasks = count / kTask;
  const auto streams = [&](const auto& body) {
    const auto run = [&] {
      cpu::parallel_for(options.threads, tasks,
                        [&](std::int64_t task) { body(task * kTask, (task + 1) * kTask); });
    };
    return bench::time_by_turns(options.timing(), {{run, options.threads}}).front();
  };
  streams([&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) a[i] = b[i] = c[i] = 1.0F;
  });
  std::vector<float> sums(static_cast<std::size_t>(tasks));
  const Timing read = streams([&](std::int64_t begin, std::int64_t end) {
    constexpr int kLanes = 64;
    float lanes[kLanes] = {};
    for (std::int64_t i = begin; i < end; i += kLanes) {
      for (int lane = 0; lane < kLanes; ++lane) lanes[lane] += a[i + lane];
    }
    float sum = 0.0F;
    for (const float lane : lanes) sum += lane;
    sums[static_cast<std::size_t>(begin / kTask)] = sum;
  });
  const Timing copy = streams([&](std::int64_t begin, std::int64_t end) {
    std::memcpy(&b[begin], &a[begin], static_cast<std::size_t>(end - begin) * sizeof(float));
  });
  const Timing triad = streams([&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) c[i] = a[i] + 3.0F * b[i];
  });
  const double bytes = static_cast<double>(kStreamBytes);
  return {bytes / read.median, 2 * bytes / copy.median, 3 * bytes / triad.median};
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

class Bench {
 public:
  explicit Bench(const Options& options)
      : options_(options),
        storage_(*dtype_from_name(options.dtype)),
        choice_(cpu::choose_products(options.matmul_precision, storage_ == DType::kBF16)),
        peak_(cpu::measure_peak(options.threads, kPeakTimes)),
        bandwidth_(measure_bandwidth(options)),
        backend_(make_cpu_backend(options.threads, choice_.products)),
        alone_(make_cpu_backend(1, choice_.products)),
        reference_(make_ref_backend()) {
    if (options.json) return;
    fmt::print("target {}, {} threads, storage {}, products {} ({})\n",
               cpu::describe_active_target(), options.threads, options.dtype, choice_.name(),
               choice_.reason);
    fmt::print("peak: {}; products are held against {:.0f} GFLOP/s\n", cpu::to_text(peak_),
               peak_.of(choice_.products));
    fmt::print("memory: read {:.1f}, copy {:.1f}, triad {:.1f} GB/s\n\n", bandwidth_.read * 1e-9,
               bandwidth_.copy * 1e-9, bandwidth_.triad * 1e-9);
    fmt::print("{:<26} {:<38} {:>10} {:>10} {:>16} {:>9} {:>9} {:>6} {:>5}", "op", "shape",
               "median ms", "best ms", "rate", "of limit", "at best", "clean", "ipc");
    if (!options.no_onednn) fmt::print(" {:>8} {:>7}", "oneDNN", "faster");
    if (options.scaling) fmt::print(" {:>8}", "scaling");
    fmt::print("\n");
  }

  void run(const ops::Case& row) {
    Arena operands("operands", kOperandBytes);
    Arena workspace("workspace", kWorkspaceBytes);
    Context preparation{.backend = *reference_, .workspace = workspace};
    ops::Operands builder(operands, storage_, preparation);
    const ops::Job job = row.build(builder);
    Context context{.backend = *backend_, .workspace = workspace};
    Context alone{.backend = *alone_, .workspace = workspace};

    Row result;
    result.cost = job.cost;
    std::vector<bench::TimedBody> bodies = {{[&] { job.run(context); }, options_.threads}};
    if (options_.scaling) bodies.push_back({[&] { job.run(alone); }, 1});
    const auto shape = bench::linear_product(row.op, row.description);
    std::unique_ptr<bench::OnednnProduct> peer;
    if (shape && !options_.no_onednn) {
      peer = bench::OnednnProduct::make(*shape, storage_, options_.threads);
    }
    if (peer) bodies.push_back({[&] { peer->run(); }, options_.threads});

    const double before = bench::instructions_per_cycle(options_.threads);
    const auto timings = bench::time_by_turns(options_.timing(), bodies);
    result.witness = std::min(before, bench::instructions_per_cycle(options_.threads));
    result.timing = timings.front();
    if (options_.scaling) {
      result.scaling = timings[1].median / (result.timing.median * options_.threads);
    }
    if (peer) result.peer = timings.back();
    print(row, result);
  }

  // The goal is the median product's.
  void print_summary() const {
    if (options_.json || shares_.empty()) return;
    fmt::print("\n{} products: median {:.1f} % of the peak, {:.1f} % at best; goal {:.0f} %",
               shares_.size(), 100 * median(shares_), 100 * median(best_shares_),
               100 * goal_of(choice_.products));
    if (!faster_.empty()) fmt::print("; {:.2f} times oneDNN's rate", median(faster_));
    fmt::print("\npeak afterwards: {}\n",
               cpu::to_text(cpu::measure_peak(options_.threads, kPeakTimes)));
  }

 private:
  struct Row {
    OpCost cost;
    Timing timing;
    Timing peer;  // oneDNN's; zeros where there is none
    double witness = 0.0;
    double scaling = 0.0;
  };

  void print_json(const ops::Case& row, const Row& result, double share) const {
    nlohmann::ordered_json json = {
        {"op", row.op},
        {"shape", row.description},
        {"dtype", options_.dtype},
        {"products", choice_.name()},
        {"threads", options_.threads},
        {"median_s", result.timing.median},
        {"best_s", result.timing.best},
        {"flops", result.cost.flops},
        {"bytes", result.cost.bytes_read + result.cost.bytes_written},
        {"share_of_limit", share},
        {"clean", result.timing.undisturbed},
        {"witness", result.witness},
        {"peak_flops", 1e9 * peak_.of(choice_.products)},
        {"instruction_peak_flops", 1e9 * peak_.of_instruction(choice_.products)},
        {"memory_bytes_per_s", std::max(bandwidth_.copy, bandwidth_.triad)}};
    if (result.peer.median > 0.0) json["onednn_median_s"] = result.peer.median;
    if (options_.scaling) json["scaling"] = result.scaling;
    fmt::print("{}\n", json.dump());
    std::fflush(stdout);
  }

  void print(const ops::Case& row, const Row& result) {
    const auto& [cost, timing, peer, witness, scaling] = result;
    const bool product = cost.name.find("linear_") != std::string_view::npos;
    const double goal = goal_of(choice_.products);
    const double flops = static_cast<double>(cost.flops) / timing.median;
    const double bytes = static_cast<double>(cost.bytes_read + cost.bytes_written) / timing.median;
    const double flop_limit = 1e9 * (product ? peak_.of(choice_.products) : peak_.fp32_gflops);
    // Ops with products inside are held against the peak, the others against what memory moves.
    const double share =
        cost.flops > 0 ? flops / flop_limit : bytes / std::max(bandwidth_.copy, bandwidth_.triad);
    if (options_.json) return print_json(row, result, share);
    const double best_share = share * timing.median / timing.best;
    const std::string rate = cost.flops > 0 ? fmt::format("{:.1f} GFLOP/s", flops * 1e-9)
                                            : fmt::format("{:.1f} GB/s", bytes * 1e-9);
    fmt::print("{:<26} {:<38} {:>10.3f} {:>10.3f} {:>16} {:>8.1f}% {:>8.1f}% {:>6} {:>5.1f}",
               row.op, row.description, timing.median * 1e3, timing.best * 1e3, rate, share * 100,
               best_share * 100, timing.undisturbed, witness);
    if (!options_.no_onednn) print_peer(timing, peer, share);
    if (options_.scaling) fmt::print(" {:>8.2f}", scaling);
    if (product) {
      fmt::print("  goal {:.0f}%{}", 100 * goal, share >= goal ? " met" : "");
      shares_.push_back(share);
      best_shares_.push_back(best_share);
    }
    fmt::print("\n");
    std::fflush(stdout);
  }

  void print_peer(const Timing& ours, const Timing& peer, double share) {
    if (peer.median == 0.0) {
      fmt::print(" {:>8} {:>7}", "", "");
      return;
    }
    const double faster = peer.median / ours.median;
    fmt::print(" {:>7.1f}% {:>7.2f}", 100 * share / faster, faster);
    faster_.push_back(faster);
  }

  Options options_;
  DType storage_;
  cpu::ProductChoice choice_;
  cpu::Peak peak_;
  Bandwidth bandwidth_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Backend> alone_;  // one thread
  std::unique_ptr<Backend> reference_;
  std::vector<double> shares_, best_shares_, faster_;  // of the products
};

struct ProductSize {
  std::int64_t rows, n, k;
};
// Beside those of the case table: the small model (d 256, vocabulary 8192), more tokens, a wide
// layer, and as much as the products of groups.
constexpr ProductSize kMoreProducts[] = {{1024, 256, 256},  {1024, 768, 256},    {1024, 1024, 256},
                                         {1024, 256, 1024}, {1024, 8192, 256},   {4096, 3072, 768},
                                         {4096, 768, 3072}, {2048, 12288, 4096}, {2048, 3072, 768},
                                         {4096, 768, 1024}};

void add_more_products(std::vector<ops::Case>& rows) {
  for (const ProductSize& size : kMoreProducts) {
    const auto add = [&](const char* op, auto build) {
      rows.push_back(
          {op, fmt::format("{}x{}x{}", size.rows, size.n, size.k), ops::kTimedTypes, build, true});
    };
    add("linear_forward", [size](ops::Operands& operands) {
      const ops::LinearForward op{.y = operands.output({size.rows, size.n}),
                                  .x = operands.uniform({size.rows, size.k}),
                                  .weight = operands.uniform({size.n, size.k}),
                                  .bias = {}};
      return ops::make_job(op, ops::linear_forward, {});
    });
    add("linear_input_gradient", [size](ops::Operands& operands) {
      const ops::LinearInputGradient op{.dx = operands.output({size.rows, size.k}),
                                        .dy = operands.uniform({size.rows, size.n}),
                                        .weight = operands.uniform({size.n, size.k})};
      return ops::make_job(op, ops::linear_input_gradient, {});
    });
    add("linear_weight_gradient", [size](ops::Operands& operands) {
      const ops::LinearWeightGradient op{
          .dweight = operands.uniform(operands.full(), {size.n, size.k}),
          .dy = operands.uniform({size.rows, size.n}),
          .x = operands.uniform({size.rows, size.k})};
      return ops::make_job(op, ops::linear_weight_gradient, {});
    });
  }
}

bool holds(std::span<const DType> types, DType dtype) {
  return std::find(types.begin(), types.end(), dtype) != types.end();
}

std::vector<ops::Case> wanted_rows(const Options& options, DType storage) {
  ops::CaseTable table = ops::make_case_table();
  add_more_products(table.performance);
  std::erase_if(table.performance, [&](const ops::Case& row) {
    const std::string name = row.op + " " + row.description;
    return name.find(options.filter) == std::string::npos || !holds(row.storage, storage);
  });
  if (table.performance.empty()) {
    throw UsageError(
        "--filter '{}': no row of {} has it in its op and shape: without --filter all rows are "
        "shown",
        options.filter, options.dtype);
  }
  return table.performance;
}

void run(const Options& options) {
  const DType storage = *dtype_from_name(options.dtype);
  const std::vector<ops::Case> rows = wanted_rows(options, storage);
  if (const auto place = cuda_place(options.device, 0)) {
    if (options.cpu_time || options.scaling || options.matmul_precision != "auto") {
      throw UsageError(
          "--device {}: --cpu-time, --scaling and --matmul-precision are of processors: leave them "
          "out",
          options.device);
    }
    return bench::time_on_device(
        {.place = *place, .storage = storage, .seconds = options.seconds, .json = options.json},
        rows);
  }
  Bench bench(options);
  for (const ops::Case& row : rows) bench.run(row);
  bench.print_summary();
}

}  // namespace
}  // namespace phalanx

int main(int argc, char** argv) {
  phalanx::Options options;
  std::int64_t threads = options.threads;
  const auto add = [&](phalanx::FlagSet& flags) {
    flags.add({.name = "--threads",
               .help = "Threads of the CPU backend",
               .range = phalanx::from_to(1, 1024)},
              &threads);
    flags.add({.name = "--dtype", .help = "Storage type", .choices = "f32 bf16"}, &options.dtype);
    flags.add({.name = "--device",
               .help = "Where ops run; on a CUDA device marks in the queue time them",
               .choices = "cpu cuda cuda-emulated"},
              &options.device);
    flags.add({.name = "--filter", .help = "Only rows whose op and shape contain this"},
              &options.filter);
    flags.add({.name = "--matmul-precision",
               .help = "How bf16 matrices are multiplied",
               .choices = "auto fp32 bf16 amx2"},
              &options.matmul_precision);
    flags.add({.name = "--seconds", .help = "Time per row", .range = phalanx::above(0)},
              &options.seconds);
    flags.add({.name = "--cpu-time", .help = "Time by CPU time per thread: for a busy machine"},
              &options.cpu_time);
    flags.add({.name = "--scaling",
               .help = "Also on one thread, by turns: the rate by that of so many times one"},
              &options.scaling);
    flags.add({.name = "--no-onednn", .help = "Products are not compared with oneDNN's"},
              &options.no_onednn);
    flags.add({.name = "--json", .help = "A line of JSON for each row"}, &options.json);
  };
  return phalanx::bench::bench_main(
      argc, argv, "bench_ops", "Every op against its limit, measured in the same run.", add, [&] {
        options.threads = static_cast<int>(threads);
        phalanx::run(options);
      });
}
