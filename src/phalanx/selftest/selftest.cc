#include "phalanx/selftest/selftest.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/machine.h"
#include "phalanx/base/numeric.h"
#include "phalanx/base/progress.h"
#include "phalanx/ops/checked_device.h"
#include "phalanx/ops/cpu/cpu_backend.h"
#include "phalanx/ops/cpu/precision.h"
#include "phalanx/ops/cpu/target.h"
#include "phalanx/ops/device_choice.h"
#include "phalanx/selftest/case_checks.h"
#include "phalanx/selftest/report.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::int64_t kKibibyte = 1024;
constexpr std::int64_t kMebibyte = 1024 * kKibibyte;
constexpr std::int64_t kGibibyte = 1024 * kMebibyte;
constexpr int kDevice = 0;  // the first that CUDA_VISIBLE_DEVICES shows
constexpr std::int64_t kDeviceWorkspaceBytes = 64 * kMebibyte;  // of an op of the case table
constexpr double kEmulatedPatience = 20;                        // an emulated device is slow

enum class Kind { kProcessor, kDevice, kEmulated };

Kind kind_of(std::string_view device) {
  if (device == "cpu") return Kind::kProcessor;
  return device == "cuda" ? Kind::kDevice : Kind::kEmulated;
}

struct Part {
  const char* name;
  bool of_processors;
  std::optional<DevicePart> of_device;  // what the shared object does
};
constexpr Part kParts[] = {{"memory", false, DevicePart::kMemory},
                           {"copies", false, DevicePart::kCopies},
                           {"digests", false, DevicePart::kDigests},
                           {"functions", false, DevicePart::kFunctions},
                           {"cases", true, std::nullopt},
                           {"products", false, DevicePart::kProducts},
                           {"rates", false, DevicePart::kRates},
                           {"training", true, std::nullopt}};

// How much of a device each part takes.
DeviceCheckOptions sizes_of(DevicePart part, Kind kind, bool quick, std::int64_t free_bytes) {
  const bool emulated = kind == Kind::kEmulated;
  DeviceCheckOptions sizes{.device = kDevice};
  switch (part) {
    case DevicePart::kMemory:
      sizes.bytes = emulated ? kMebibyte : free_bytes / 10 * 9;
      if (quick) sizes.bytes = std::min(sizes.bytes, kGibibyte);
      break;
    case DevicePart::kCopies:
      sizes.bytes = emulated ? 64 * kKibibyte : 256 * kMebibyte;
      break;
    case DevicePart::kRates:
      sizes.bytes =
          emulated ? 256 * kKibibyte
                   : std::min((quick ? 1 : 8) * kGibibyte, free_bytes / 10 * 9 - 256 * kMebibyte);
      break;
    case DevicePart::kProducts:
      sizes.product_divisor = emulated ? 128 : 1;
      break;
    case DevicePart::kDigests:
    case DevicePart::kFunctions:
      break;
  }
  return sizes;
}

// What is tested, and with what: lines for people, JSON for programs.
struct Subject {
  std::string device;    // JSON
  std::string versions;  // JSON
  std::vector<std::string> lines;
  std::optional<CheckedDevice> checked;
};

std::string json_text(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

Subject subject_of(const CudaInterface& cuda) {
  const cuda::Facts facts = cuda.facts(kDevice);
  const std::string products = cuda.products(kDevice);
  Subject subject;
  subject.device = json_text({{"name", facts.name},
                              {"capability", fmt::format("{}.{}", facts.major, facts.minor)},
                              {"processors", facts.processors},
                              {"memory_bytes", facts.memory_bytes},
                              {"free_bytes", facts.free_bytes},
                              {"memory_bytes_per_second", facts.memory_bytes_per_second},
                              {"shared_bytes_per_block", facts.shared_bytes_per_block},
                              {"second_level_cache_bytes", facts.second_level_cache_bytes}});
  subject.versions = json_text({{"phalanx", PHALANX_VERSION},
                                {"driver", version_text(facts.driver_version)},
                                {"runtime", version_text(facts.runtime_version)},
                                {"products", products}});
  subject.lines = {
      fmt::format("device: {}, compute capability {}.{}, {} processors, {} ({} free), {:.0f} GB/s",
                  facts.name, facts.major, facts.minor, facts.processors,
                  format_bytes(facts.memory_bytes), format_bytes(facts.free_bytes),
                  facts.memory_bytes_per_second * 1e-9),
      fmt::format("versions: driver of CUDA {}, runtime of CUDA {}, products {}, Phalanx {}",
                  version_text(facts.driver_version), version_text(facts.runtime_version), products,
                  PHALANX_VERSION)};
  subject.checked = CheckedDevice{facts.name, facts.driver_version, products};
  return subject;
}

Subject subject_of_processor() {
  const std::string target = cpu::describe_active_target();
  return {.device = json_text({{"name", processor_name()}, {"target", target}}),
          .versions =
              json_text({{"phalanx", PHALANX_VERSION}, {"products", cpu::available_products()}}),
          .lines = {fmt::format("device: the processor, {}; target {}", processor_name(), target),
                    fmt::format("versions: products {}, Phalanx {}", cpu::available_products(),
                                PHALANX_VERSION)},
          .checked = {}};
}

std::vector<cpu::ProductPrecision> products_of_processor() {
  std::vector<cpu::ProductPrecision> products;
  for (const auto one :
       {cpu::ProductPrecision::kFp32, cpu::ProductPrecision::kBf16, cpu::ProductPrecision::kAmx}) {
    if (cpu::has_products(one)) products.push_back(one);
  }
  return products;
}

void check_processor_cases(bool every_type, SelftestReport& report) {
  for (const cpu::ProductPrecision products : products_of_processor()) {
    const auto backend = make_cpu_backend(1, products);
    const bool is_first = products == cpu::ProductPrecision::kFp32;
    check_cases({*backend},
                {.every_type = every_type,
                 .products_alone = !is_first,
                 .remark = is_first ? "" : fmt::format(", {} products", cpu::name_of(products))},
                report);
  }
}

// The parts that are asked for.
std::vector<Part> chosen_parts(const SelftestOptions& options) {
  const bool processor = kind_of(options.device) == Kind::kProcessor;
  std::vector<Part> chosen;
  for (const std::string& name : options.parts) {
    const std::vector<std::string> names = selftest_parts(options.device);
    if (std::ranges::find(names, name) == names.end()) {
      throw ConfigError("--only {}: --device {} has the parts {}", name, options.device,
                        fmt::join(names, ", "));
    }
  }
  for (const Part& part : kParts) {
    if (processor && !part.of_processors) continue;
    if (options.parts.empty() ||
        std::ranges::find(options.parts, part.name) != options.parts.end()) {
      chosen.push_back(part);
    }
  }
  return chosen;
}

// Where results go; a folder that was not asked for may be missing.
std::optional<fs::path> folder_of(const SelftestOptions& options) {
  std::optional<fs::path> folder;
  if (!options.output.empty()) {
    folder = options.output;
  } else if (const auto state = state_folder()) {
    folder = *state / "selftest";
  }
  if (!folder) return std::nullopt;
  std::error_code error;
  fs::create_directories(*folder, error);
  if (!error && ::access(folder->c_str(), W_OK) == 0) return folder;
  if (options.output.empty()) return std::nullopt;
  throw OutputError("--output {}: {}", options.output,
                    error ? error.message() : std::string("it cannot be written"));
}

class Selftest {
 public:
  Selftest(const SelftestOptions& options, const SelftestCaller& caller,
           const SelftestSubject& subject, const CudaInterface* cuda, SelftestReport& report)
      : options_(options),
        caller_(caller),
        subject_(subject),
        kind_(kind_of(options.device)),
        cuda_(cuda),
        report_(report) {}

  void run(const Part& part) {
    report_.note(fmt::format("-- {}", part.name));
    try {
      if (part.of_device) {
        run_on_device(*part.of_device);
      } else if (std::string_view(part.name) == "cases") {
        check_all_cases();
      } else {
        check_trainings();
      }
    } catch (const Error& error) {
      report_.add(CheckResult{.name = part.name, .passed = false, .more = error.what()});
    }
  }

 private:
  void run_on_device(DevicePart part) {
    DeviceCheckOptions sizes =
        sizes_of(part, kind_, options_.quick, cuda_->facts(kDevice).free_bytes);
    sizes.digests = subject_.digests;
    cuda_->check(part, sizes, report_);
  }
  void check_all_cases() {
    if (cuda_ == nullptr) return check_processor_cases(!options_.quick, report_);
    const auto memory = cuda_->device_memory(kDevice);
    const auto backend = cuda_->backend(kDevice, note_progress);
    ops::Machine machine{*backend, *memory};
    if (kind_ == Kind::kDevice) machine.device_workspace_bytes = kDeviceWorkspaceBytes;
    check_cases(machine, {.every_type = !options_.quick}, report_);
  }
  void check_trainings() {
    TrainingChecks checks{
        .device = options_.device, .stored = subject_.losses, .is_stopped = caller_.is_stopped};
    if (cuda_ == nullptr) checks.products = cpu::name_of(products_of_processor().back());
    check_training(checks, report_);
  }

  const SelftestOptions& options_;
  const SelftestCaller& caller_;
  const SelftestSubject& subject_;
  Kind kind_;
  const CudaInterface* cuda_;
  SelftestReport& report_;
};

}  // namespace

std::vector<std::string> selftest_parts(std::string_view device) {
  std::vector<std::string> names;
  for (const Part& part : kParts) {
    if (part.of_processors || device != "cpu") names.emplace_back(part.name);
  }
  return names;
}

SelftestEnd selftest(const SelftestOptions& options, const SelftestCaller& caller,
                     const SelftestSubject& subject) {
  const std::vector<Part> parts = chosen_parts(options);
  const Kind kind = kind_of(options.device);
  const CudaInterface* cuda = subject.cuda;
  if (cuda == nullptr && kind != Kind::kProcessor) {
    const CudaMachine machine =
        kind == Kind::kDevice ? CudaMachine::kDevice : CudaMachine::kEmulated;
    expect_device({.machine = machine, .device = kDevice});
    cuda = &cuda_interface(machine);
  }
  const Subject found = cuda != nullptr ? subject_of(*cuda) : subject_of_processor();
  const auto folder = folder_of(options);
  SelftestReport report({.put = caller.put,
                         .folder = folder,
                         .patience = kind == Kind::kDevice ? 1 : kEmulatedPatience,
                         .hangs = caller.hangs,
                         .is_stopped = caller.is_stopped},
                        found.device, found.versions);
  for (const std::string& line : found.lines) report.note(line);
  Selftest test(options, caller, subject, cuda, report);
  try {
    for (const Part& part : parts) test.run(part);
  } catch (const SelftestStopped&) {
    report.note("stopped before its end");
    return {report.passed(), report.failed(), true};
  }
  report.finish();
  if (kind == Kind::kDevice && (options.parts.empty() || report.failed() > 0)) {
    const std::string reason = keep_checked(*found.checked, report.failed() == 0);
    if (!reason.empty()) report.note("that it passed cannot be kept: " + reason);
  }
  if (folder) report.note(fmt::format("results: {}", (*folder / "selftest.json").string()));
  return {report.passed(), report.failed(), false};
}

}  // namespace phalanx
