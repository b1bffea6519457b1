#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/base/file.h"
#include "phalanx/base/log.h"
#include "phalanx/base/machine.h"
#include "phalanx/cli/commands.h"
#include "phalanx/cli/output_files.h"
#include "phalanx/cli/shapes_file.h"
#include "phalanx/clock/constant_fit.h"
#include "phalanx/clock/device_measurement.h"
#include "phalanx/flags/flag_set.h"

namespace phalanx {
namespace {

constexpr const char* kStopping =
    "SIGINT: stopping behind the op that runs, nothing is written; press Ctrl-C again to end at "
    "once\n";
constexpr int kFirstDevice = 0;
constexpr int kEndedBySignal = 128;  // plus the signal's number, as in shells

struct BenchDeviceFlags {
  std::string output;
  std::int64_t threads = 0;
  std::int64_t ranks = 1;
  std::string types = "all";
  std::string matmul_precision = "auto";
  std::string device = "cpu";
  std::string shapes;
  bool quick = false;
  bool overwrite = false;
  bool json = false;

  void add_to(FlagSet& flags) {
    flags.add({.name = "--output",
               .help = "The description that is written, YAML, also -o FILE",
               .value_name = "FILE"},
              &output);
    flags.add({.name = "--threads",
               .help = "Threads that compute, those of a rank (0: its share of the usable cores)",
               .range = from_to(0, 1024)},
              &threads);
    flags.add(
        {.name = "--ranks",
         .help = "Ranks of this machine that compute at the same time: they share its memory; "
                 "of a CUDA device one alone is measured",
         .range = from_to(1, 1024)},
        &ranks);
    flags.add({.name = "--types", .help = "What runs store", .choices = "all f32 bf16"}, &types);
    flags.add({.name = "--matmul-precision",
               .help = "The products of bf16, as of pretrain",
               .choices = "auto fp32 bf16 amx2"},
              &matmul_precision);
    flags.add({.name = "--device",
               .help = "Where ops run; the emulated device is for tests of programs",
               .choices = "cpu cuda cuda-emulated"},
              &device);
    flags.add(
        {.name = "--shapes",
         .help = "Also what phalanx plan --write-shapes wrote: the products and the attention "
                 "of a model's step",
         .value_name = "FILE"},
        &shapes);
    flags.add({.name = "--quick",
               .help = "Seconds instead of minutes: less is measured, and not as well"},
              &quick);
    flags.add({.name = "--overwrite", .help = "Replace a file that is there"}, &overwrite);
    flags.add({.name = "--json", .help = "One JSON document on standard output"}, &json);
    flags.add_example("phalanx bench device -o device.yaml", "three minutes on two cores");
  }

  std::vector<DType> storage() const {
    std::vector<DType> chosen;
    for (const DType type : {DType::kF32, DType::kBF16}) {
      if (types == "all" || types == name_of(type)) chosen.push_back(type);
    }
    return chosen;
  }
};

// Single ops and shapes are in the file.
bool is_shown(const NamedQuantity& number) {
  return std::ranges::none_of(std::array{"op_rate_", "product_factor_", "attention_share_"},
                              [&](const char* prefix) { return number.key.starts_with(prefix); });
}

std::string text_of(const FittedDevice& fit, const std::string& output) {
  std::string text = fmt::format("{}\n\n", fit.device.title);
  for (const NamedQuantity& number : quantities_of(fit.device)) {
    if (is_shown(number)) text += fmt::format("{:<24} {:.4g}\n", number.key, number.quantity.value);
  }
  return text +
         fmt::format(
             "\nthe formula of products is {:.1f} % off, that of memory {:.1f} % (root mean "
             "squares); {} single ops have their own rates, {} products their own factors\n{}\n",
             100 * fit.product_error, 100 * fit.memory_error, fit.device.op_rates.size(),
             fit.device.measured_products.size(), output);
}

std::string json_of(const DeviceMeasurements& measurements, const FittedDevice& fit,
                    const std::string& output) {
  nlohmann::ordered_json json = {{"file", output},
                                 {"title", fit.device.title},
                                 {"timed_ops", measurements.jobs},
                                 {"disturbed_ops", measurements.disturbed_jobs},
                                 {"product_error", fit.product_error},
                                 {"memory_error", fit.memory_error},
                                 {"numbers", nlohmann::ordered_json::object()},
                                 {"products", nlohmann::ordered_json::array()}};
  for (const NamedQuantity& number : quantities_of(fit.device)) {
    json["numbers"][number.key] = number.quantity.value;
  }
  for (const ProductPoint& point : measurements.products) {
    const MatrixProduct& product = point.product;
    json["products"].push_back({{"type", name_of(product.type)},
                                {"m", product.m},
                                {"n", product.n},
                                {"k", product.k},
                                {"seconds", point.seconds},
                                {"formula", formula_seconds(fit.device, product)},
                                {"predicted", product_seconds(fit.device, product)}});
  }
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

// Before minutes are spent.
void check_file(const std::string& output, bool overwrite) {
  if (output.empty()) throw UsageError("say which file is written: -o device.yaml");
  check_output("--output", output, overwrite);
  check_writable("--output", output);
}

}  // namespace

int run_bench_device(CommandIo& io, const Arguments& arguments) {
  BenchDeviceFlags values;
  FlagSet flags(
      "phalanx bench device",
      "Measures products, attention, memory and every other op on this processor or a CUDA "
      "device, and writes what predictions of a step's time need of it.");
  values.add_to(flags);
  flags.parse(with_long_names(arguments));
  check_file(values.output, values.overwrite);

  const WantedShapes wanted =
      values.shapes.empty() ? WantedShapes()
                            : wanted_shapes_from_json(read_file(values.shapes), values.shapes);
  const auto signals = io.listen(kStopping);
  MeasurementOptions options{.threads = static_cast<int>(values.threads),
                             .types = values.storage(),
                             .matmul_precision = values.matmul_precision,
                             .cuda = cuda_place(values.device, kFirstDevice),
                             .wanted = wanted,
                             .is_quick = values.quick};
  options.ranks = static_cast<int>(values.ranks);
  if (options.threads == 0) options.threads = default_threads(options.ranks).count;
  if (options.cuda && options.ranks > 1) {
    throw UsageError("--ranks {}: of a CUDA device one rank is measured: leave out --ranks",
                     options.ranks);
  }
  options.note = [](const std::string& what) { log_info("{}", what); };
  options.is_stopped = [&] { return signals->received() != 0; };
  DeviceMeasurements measurements = measure_ops(options);
  if (signals->received() != 0) {
    log_line(LogLevel::kError, "phalanx bench: stopped; nothing was written");
    return kEndedBySignal + signals->received();
  }
  if (20 * measurements.disturbed_jobs > measurements.jobs) {
    log_warning(
        "phalanx bench: {} of {} ops never had their core for themselves, so rates are too "
        "low: stop what else runs, and measure again",
        measurements.disturbed_jobs, measurements.jobs);
  }
  measurements.name = values.output;
  const FittedDevice fit = fitted_device(measurements);
  write_file_durably(values.output, yaml_of(fit.device));
  io.put(values.json ? json_of(measurements, fit, values.output) : text_of(fit, values.output));
  return 0;
}

}  // namespace phalanx
