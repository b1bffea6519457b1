#include "device_ops.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "phalanx/base/machine.h"
#include "phalanx/ops/cases/device_timer.h"
#include "phalanx/ops/measured_device.h"

namespace phalanx::bench {
namespace {

constexpr std::size_t kFewestSamples = 3;

class DeviceBench {
 public:
  explicit DeviceBench(const DeviceOptions& options)
      : options_(options),
        device_(*measure_device(options.place, options.storage).cuda),
        timer_(options.place, options.storage, usable_cores().count) {
    if (options.json) return;
    fmt::print("{}, storage {}, products {}\n", device_.name, name_of(options.storage),
               device_.products);
    if (timer_.is_emulated()) {
      fmt::print("These times are those of an emulated machine and mean nothing.\n");
    }
    fmt::print("limits: {:.0f} GFLOP/s of a large product, {:.0f} GB/s of the memory{}\n\n",
               device_.flops * 1e-9, timer_.facts().memory_bytes_per_second * 1e-9,
               timer_.facts().memory_bytes_per_second > 0 ? "" : " (the driver does not say)");
    fmt::print("{:<26} {:<38} {:>10} {:>10} {:>16} {:>9} {:>7}\n", "op", "shape", "median ms",
               "best ms", "rate", "of limit", "samples");
  }

  void time(const ops::Case& row) {
    const ops::DeviceTimer::Times times = timer_.time(row, options_.seconds, kFewestSamples);
    print(row, times.cost, times.seconds);
  }

 private:
  void print(const ops::Case& row, const OpCost& cost, const std::vector<double>& seconds) const {
    const double median = seconds[seconds.size() / 2];
    const double best = seconds.front();
    const auto bytes = static_cast<double>(cost.bytes_read + cost.bytes_written);
    const bool computes = cost.flops > 0;
    const double rate = (computes ? static_cast<double>(cost.flops) : bytes) / median;
    const double limit = computes ? device_.flops : timer_.facts().memory_bytes_per_second;
    const double share = limit > 0.0 ? rate / limit : 0.0;
    if (options_.json) {
      const nlohmann::ordered_json json = {
          {"op", row.op},
          {"shape", row.description},
          {"dtype", name_of(options_.storage)},
          {"device", device_.name},
          {"emulated", timer_.is_emulated()},
          {"products", device_.products},
          {"median_s", median},
          {"best_s", best},
          {"flops", cost.flops},
          {"bytes", cost.bytes_read + cost.bytes_written},
          {"share_of_limit", share},
          {"samples", seconds.size()},
          {"product_flops", device_.flops},
          {"memory_bytes_per_s", timer_.facts().memory_bytes_per_second}};
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
  ops::DeviceTimer timer_;
};

}  // namespace

void time_on_device(const DeviceOptions& options, const std::vector<ops::Case>& rows) {
  DeviceBench bench(options);
  for (const ops::Case& row : rows) bench.time(row);
}

}  // namespace phalanx::bench
