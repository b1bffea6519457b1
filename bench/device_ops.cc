#include "device_ops.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "phalanx/ops/measured_device.h"
#include "phalanx/ops/ref/ref_backend.h"

namespace phalanx::bench {
namespace {

constexpr std::int64_t kHostBytes = std::int64_t{3} << 30;
constexpr std::int64_t kHostWorkspaceBytes = std::int64_t{1} << 30;
// A sample has so many calls that it takes this long.
constexpr double kSampleSeconds = 1e-3;
constexpr int kMostCalls = 100;
constexpr std::size_t kFewestSamples = 3;

class DeviceBench {
 public:
  explicit DeviceBench(const DeviceOptions& options)
      : options_(options),
        device_(*measure_device(options.place, options.storage).cuda),
        facts_(cuda_interface(options.place.machine).facts(options.place.device)),
        memory_(choice().make_memory()),
        backend_(choice().make_backend(1)),
        planning_(choice().make_planning_backend(1)),
        reference_(make_ref_backend()) {
    if (options.json) return;
    fmt::print("{}, storage {}, products {}\n", device_.name, name_of(options.storage),
               device_.products);
    if (is_emulated()) {
      fmt::print("These times are those of an emulated machine and mean nothing.\n");
    }
    fmt::print("limits: {:.0f} GFLOP/s of a large product, {:.0f} GB/s of the memory{}\n\n",
               device_.flops * 1e-9, facts_.memory_bytes_per_second * 1e-9,
               facts_.memory_bytes_per_second > 0 ? "" : " (the driver does not say)");
    fmt::print("{:<26} {:<38} {:>10} {:>10} {:>16} {:>9} {:>7}\n", "op", "shape", "median ms",
               "best ms", "rate", "of limit", "samples");
  }

  void time(const ops::Case& row) {
    // The contents are made on the host. The same calls find the same places on the device.
    Arena host("operands", kHostBytes);
    Arena host_workspace("workspace", kHostWorkspaceBytes);
    Context preparation{.backend = *reference_, .workspace = host_workspace};
    ops::Operands contents(host, options_.storage, preparation);
    row.build(contents);
    const std::int64_t bytes = host.high_water();

    Arena planned = Arena::planning("workspace");
    Context planning{.backend = *planning_, .workspace = planned};
    Arena operands("operands", bytes, *memory_);
    ops::Operands places(operands, options_.storage, planning);
    const ops::Job job = row.build(places);
    PHALANX_CHECK(operands.high_water() == bytes, "{} bytes of operands, {} on the host",
                  operands.high_water(), bytes);
    planned.forget_high_water();
    job.run(planning);
    Arena workspace("workspace", planned.high_water(), *memory_);
    const Queue queue = backend_->queue(StreamKind::kCompute);
    backend_->upload(queue, dense_tensor(operands, 0, DType::kU8, {bytes}),
                     {host.base(), static_cast<std::size_t>(bytes)});
    Context context{.backend = *backend_, .workspace = workspace, .queue = queue};
    print(row, job.cost, samples(context, job));
    backend_->throw_faults(queue);
  }

 private:
  DeviceChoice choice() const { return {.cuda = options_.place}; }
  bool is_emulated() const { return options_.place.machine == CudaMachine::kEmulated; }

  // Seconds of a call.
  double sample(Context& context, const ops::Job& job, int calls) {
    const Event begin = backend_->record_timed(context.queue);
    for (int i = 0; i < calls; ++i) job.run(context);
    const Event end = backend_->record_timed(context.queue);
    backend_->wait_host(end);
    return backend_->seconds(begin, end) / calls;
  }

  // In ascending order.
  std::vector<double> samples(Context& context, const ops::Job& job) {
    // The first call may load kernels or a library.
    sample(context, job, 1);
    const double once = std::max(sample(context, job, 1), 1e-7);
    const int calls = std::clamp(static_cast<int>(std::ceil(kSampleSeconds / once)), 1, kMostCalls);
    std::vector<double> seconds;
    const auto begin = std::chrono::steady_clock::now();
    const auto is_over = [&] {
      const std::chrono::duration<double> since = std::chrono::steady_clock::now() - begin;
      return since.count() > options_.seconds;
    };
    do {
      seconds.push_back(sample(context, job, is_emulated() ? 1 : calls));
    } while (seconds.size() < kFewestSamples || !is_over());
    std::ranges::sort(seconds);
    return seconds;
  }

  void print(const ops::Case& row, const OpCost& cost, const std::vector<double>& seconds) const {
    const double median = seconds[seconds.size() / 2];
    const double best = seconds.front();
    const auto bytes = static_cast<double>(cost.bytes_read + cost.bytes_written);
    const bool computes = cost.flops > 0;
    const double rate = (computes ? static_cast<double>(cost.flops) : bytes) / median;
    const double limit = computes ? device_.flops : facts_.memory_bytes_per_second;
    const double share = limit > 0.0 ? rate / limit : 0.0;
    if (options_.json) {
      const nlohmann::ordered_json json = {{"op", row.op},
                                           {"shape", row.description},
                                           {"dtype", name_of(options_.storage)},
                                           {"device", device_.name},
                                           {"emulated", is_emulated()},
                                           {"products", device_.products},
                                           {"median_s", median},
                                           {"best_s", best},
                                           {"flops", cost.flops},
                                           {"bytes", cost.bytes_read + cost.bytes_written},
                                           {"share_of_limit", share},
                                           {"samples", seconds.size()},
                                           {"product_flops", device_.flops},
                                           {"memory_bytes_per_s", facts_.memory_bytes_per_second}};
      fmt::print("{}\n", json.dump());
    } else {
      fmt::print("{:<26} {:<38} {:>10.4f} {:>10.4f} {:>16} {:>8.1f}% {:>7}\n", row.op,
                 row.description, median * 1e3, best * 1e3,
                 fmt::format("{:.1f} {}", rate * 1e-9, computes ? "GFLOP/s" : "GB/s"), share * 100,
                 seconds.size());
    }
    std::fflush(stdout);
  }

  const DeviceOptions options_;
  const MeasuredDevice::Cuda device_;
  const cuda::Facts facts_;
  std::unique_ptr<ArenaMemory> memory_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Backend> planning_;
  std::unique_ptr<Backend> reference_;
};

}  // namespace

void time_on_device(const DeviceOptions& options, const std::vector<ops::Case>& rows) {
  DeviceBench bench(options);
  for (const ops::Case& row : rows) bench.time(row);
}

}  // namespace phalanx::bench
