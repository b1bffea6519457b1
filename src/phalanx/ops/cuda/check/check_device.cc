// check_device: whether a device, its driver and cuBLASLt do what the emulated ones do, and how
// fast. Needs the driver alone (and libcublasLt for products). Linked with the emulated machine it
// writes what a device must give.

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/base/numeric.h"
#include "phalanx/cuda/kernel.h"
#include "phalanx/ops/cuda/check/checks.h"
#include "phalanx/ops/cuda/check/expected.h"
#include "phalanx/ops/cuda/check/members-inl.h"

namespace phalanx::cuda {
namespace {

constexpr const char* kUsage = R"(usage: check_device [FLAGS]

Compares a CUDA device with what the emulated machine has written (--expected), and measures it.

  --expected FILE  what a device must give; written by check_device_emulated --record FILE
  --record FILE    write that file instead
  --output FILE    the results as JSON (check.json)
  --device N       which device (0)
  --rate-bytes N   operands of the kernels that are timed, in MiB (8192); 0: none
  --memory PERCENT of free memory that is written and read (90); 0: none
  --no-products    cuBLASLt is not opened

Exit status: 0, 70 when a check has failed, 69 without a driver or device, 64 for a wrong flag.
)";

struct Options {
  std::string expected;
  std::string record;
  std::string output = "check.json";
  int device = 0;
  std::int64_t rate_mib = 8192;
  int memory_percent = 90;
  bool products = true;
};

std::int64_t number(std::string_view flag, const std::string& text) {
  char* end = nullptr;
  const long long value = std::strtoll(text.c_str(), &end, 10);
  if (text.empty() || *end != '\0' || value < 0) {
    throw UsageError("{} needs a number, not '{}'", flag, text);
  }
  return value;
}

Options read_options(int count, char** arguments) {
  Options options;
  for (int i = 1; i < count; ++i) {
    const std::string flag = arguments[i];
    const auto value = [&] {
      if (i + 1 == count) throw UsageError("{} needs a value", flag);
      return std::string(arguments[++i]);
    };
    if (flag == "--expected") {
      options.expected = value();
    } else if (flag == "--record") {
      options.record = value();
    } else if (flag == "--output") {
      options.output = value();
    } else if (flag == "--device") {
      options.device = static_cast<int>(number(flag, value()));
    } else if (flag == "--rate-bytes") {
      options.rate_mib = number(flag, value());
    } else if (flag == "--memory") {
      options.memory_percent = static_cast<int>(number(flag, value()));
      if (options.memory_percent > 100) throw UsageError("--memory is at most 100");
    } else if (flag == "--no-products") {
      options.products = false;
    } else if (flag == "-h" || flag == "--help") {
      fmt::print("{}", kUsage);
      std::exit(0);
    } else {
      throw UsageError("unknown flag '{}' (--help names them)", flag);
    }
  }
  return options;
}

std::string text_of(const std::vector<std::byte>& bytes) {
  std::string text;
  for (std::size_t i = 0; i + 4 <= bytes.size() && i < 64; i += 4) {
    std::uint32_t word = 0;
    std::memcpy(&word, bytes.data() + i, 4);
    text += fmt::format(" {:08x}", word);
  }
  return text;
}

// What has been found so far; written after every check.
class Report {
 public:
  Report(std::string path, const Facts& facts) : path_(std::move(path)), facts_(facts) {}

  void check(const std::string& name, bool passed, double error, double tolerance, double seconds,
             const std::string& more = {}) {
    const std::lock_guard<std::mutex> lock(mutex_);
    checks_.push_back(fmt::format(
        R"({{"name": "{}", "passed": {}, "error": {:.3e}, "tolerance": {:.3e}, "seconds": {:.4f}{}}})",
        name, passed, error, tolerance, seconds,
        more.empty() ? "" : fmt::format(R"(, "more": "{}")", more)));
    if (!passed) ++failed_;
    ++count_;
    fmt::print("{} {:<58} {}{}\n", passed ? "ok    " : "FAILED", name,
               tolerance > 0 ? fmt::format("error {:.2e} of {:.2e} ", error, tolerance) : "", more);
    std::fflush(stdout);
    write();
  }
  void rate(const std::string& name, double value, const char* unit, double share) {
    const std::lock_guard<std::mutex> lock(mutex_);
    rates_.push_back(
        fmt::format(R"({{"name": "{}", "value": {:.4g}, "unit": "{}", "share_of_peak": {:.4f}}})",
                    name, value, unit, share));
    fmt::print("rate   {:<58} {:9.1f} {} {:5.1f} %\n", name, value, unit, 100 * share);
    std::fflush(stdout);
    write();
  }
  int failed() const { return failed_; }
  int count() const { return count_; }

 private:
  static std::string list(const std::vector<std::string>& lines) {
    std::string text;
    for (const std::string& line : lines) text += (text.empty() ? "\n    " : ",\n    ") + line;
    return "[" + text + "]";
  }
  void write() const {
    std::ofstream file(path_);
    file << fmt::format(
        "{{\"device\": {{\"name\": \"{}\", \"capability\": \"{}.{}\", \"processors\": {}, "
        "\"memory_bytes\": {}, \"memory_bytes_per_second\": {:.4g}}},\n"
        " \"versions\": {{\"driver\": {}, \"runtime\": {}}},\n \"checks\": {},\n \"rates\": {},\n"
        " \"failed\": {}}}\n",
        facts_.name, facts_.major, facts_.minor, facts_.processors, facts_.memory_bytes,
        facts_.memory_bytes_per_second, facts_.driver_version, facts_.runtime_version,
        list(checks_), list(rates_), failed_);
  }

  std::mutex mutex_;
  std::string path_;
  Facts facts_;
  std::vector<std::string> checks_;
  std::vector<std::string> rates_;
  int failed_ = 0;
  int count_ = 0;
};

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Ends the program when a step takes longer than its limit: a device can hang.
class Limit {
 public:
  explicit Limit(Report& report) : report_(report), watcher_([this] { watch(); }) {}
  ~Limit() {
    ended_ = true;
    watcher_.join();
  }
  Limit(const Limit&) = delete;
  Limit& operator=(const Limit&) = delete;

  void begin(const std::string& step, double seconds) {
    const std::lock_guard<std::mutex> lock(mutex_);
    step_ = step;
    until_ = Clock::now() +
             std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  }

 private:
  void watch() {
    while (!ended_) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      const std::lock_guard<std::mutex> lock(mutex_);
      if (step_.empty() || Clock::now() < until_) continue;
      report_.check(step_, false, 0, 0, 0, "longer than its limit");
      std::_Exit(70);
    }
  }

  Report& report_;
  std::mutex mutex_;
  std::string step_;
  Clock::time_point until_;
  std::atomic<bool> ended_ = false;
  std::thread watcher_;
};

void check_exact(const Options& options, Workbench& bench, Report& report, Limit& limit) {
  const Expected expected = read_expected(options.expected);
  for (const ExactCheck& check : all_exact_checks()) {
    limit.begin(check.name, 20);
    const auto begin = Clock::now();
    try {
      bench.clear();
      const std::vector<std::byte> first = check.run(bench);
      bench.clear();
      const bool same = check.run(bench) == first;
      const auto entry = expected.find(check.name);
      std::string more;
      bool passed = same;
      if (!same) more = "two runs differ; ";
      if (entry == expected.end()) {
        passed = false;
        more += "no such name in the file";
      } else if (!(digest_parts(first) == entry->second)) {
        passed = false;
        const Digest found = digest_parts(first);
        more += fmt::format("{} bytes of {}, parts that differ:", found.bytes, entry->second.bytes);
        for (std::size_t i = 0; i < found.parts.size() && i < entry->second.parts.size(); ++i) {
          if (found.parts[i] != entry->second.parts[i]) more += fmt::format(" {}", i);
        }
        more += "; it begins with" + text_of(first);
      }
      report.check(check.name, passed, 0, 0, seconds_since(begin), more);
    } catch (const Error& error) {
      report.check(check.name, false, 0, 0, seconds_since(begin), error.what());
    }
  }
}

void check_approximate(const Options& options, Workbench& bench, Report& report, Limit& limit) {
  for (const ApproximateCheck& check : all_approximate_checks()) {
    if (!options.products && check.name.starts_with("product")) continue;
    // The first product opens half a gigabyte of library.
    limit.begin(check.name, 60);
    const auto begin = Clock::now();
    try {
      bench.clear();
      const double error = check.error(bench);
      report.check(check.name, error <= check.tolerance, error, check.tolerance,
                   seconds_since(begin));
    } catch (const Error& error) {
      report.check(check.name, false, 0, 0, seconds_since(begin), error.what());
    }
  }
}

void check_memory(const Options& options, Report& report, Limit& limit) {
  const std::int64_t bytes =
      facts(options.device).free_bytes / 100 * options.memory_percent / 4096 * 4096;
  limit.begin("memory", 60);
  const auto begin = Clock::now();
  std::byte* memory = allocate(options.device, bytes);
  const Queue queue = make_queue(options.device);
  std::byte* count = allocate(options.device, 8);
  std::byte* pinned = allocate_pinned(8);
  std::uint64_t wrong = 0;
  for (const std::uint32_t salt : {0U, 0x55555555U}) {
    const std::int64_t words = bytes / 4;
    const Grid grid{ceil_div(words, MemoryMember::kWords)};
    auto* at = reinterpret_cast<std::uint32_t*>(memory);
    set_bytes(queue, count, 0, 8);
    launch<MemoryMember>(queue, grid, {at, words, salt, nullptr});
    launch<MemoryMember>(queue, grid, {at, words, salt, reinterpret_cast<std::uint64_t*>(count)});
    copy(queue, pinned, count, 8);
    wait_host(queue);
    std::uint64_t found = 0;
    std::memcpy(&found, pinned, 8);
    wrong += found;
  }
  report.check(fmt::format("memory: {} written and read twice", format_bytes(bytes)), wrong == 0,
               static_cast<double>(wrong), 0, seconds_since(begin));
  give_back(options.device, memory);
  give_back(options.device, count);
  give_back_pinned(pinned);
  give_back(queue);
}

// The median of 7 times, each of so many calls that the clock's steps do not matter.
double median_seconds(Queue queue, int device, const std::function<void()>& enqueue) {
  const Mark begin = make_mark(device, true);
  const Mark end = make_mark(device, true);
  for (int i = 0; i < 2; ++i) enqueue();
  wait_host(queue);
  std::vector<double> times;
  for (int i = 0; i < 7; ++i) {
    record(queue, begin);
    enqueue();
    record(queue, end);
    wait_host(end);
    times.push_back(static_cast<double>(milliseconds(begin, end)) * 1e-3);
  }
  give_back(begin);
  give_back(end);
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

void measure_copies(const Options& options, Report& report, Limit& limit) {
  limit.begin("copies", 30);
  const std::int64_t bytes = std::int64_t{256} << 20;
  std::byte* memory = allocate(options.device, bytes);
  std::byte* pinned = allocate_pinned(bytes);
  const Queue queue = make_queue(options.device);
  const double up =
      median_seconds(queue, options.device, [&] { copy(queue, memory, pinned, bytes); });
  const double down =
      median_seconds(queue, options.device, [&] { copy(queue, pinned, memory, bytes); });
  report.rate("copy to the device", static_cast<double>(bytes) / up * 1e-9, "GB/s", 0);
  report.rate("copy from the device", static_cast<double>(bytes) / down * 1e-9, "GB/s", 0);
  give_back(options.device, memory);
  give_back_pinned(pinned);
  give_back(queue);
}

// Dense bf16 products of a processor and clock, as far as they are known.
double peak_flops(const Facts& facts) {
  if (facts.major == 9) return 989e12;
  if (facts.major == 8 && facts.minor == 0) return 312e12;
  return 0.0;
}

void measure_rates(const Options& options, Report& report, Limit& limit) {
  const Facts device = facts(options.device);
  const std::int64_t bytes =
      std::min(options.rate_mib << 20, device.free_bytes / 10 * 9 - (std::int64_t{1} << 28));
  limit.begin("rates: memory", 30);
  Workbench bench(options.device, bytes + (std::int64_t{1} << 20));
  if (!options.products) limit.begin("rates", 60);
  try {
    for_rates(bench, bytes, [&](const Rate& rate) {
      limit.begin(rate.name, 60);
      const double seconds = median_seconds(bench.queue(), options.device, rate.enqueue);
      if (rate.flops > 0) {
        const double peak = peak_flops(device);
        report.rate(rate.name, rate.flops / seconds * 1e-12, "TF/s",
                    peak > 0 ? rate.flops / seconds / peak : 0);
      } else {
        const double peak = device.memory_bytes_per_second;
        report.rate(rate.name, rate.bytes / seconds * 1e-9, "GB/s",
                    peak > 0 ? rate.bytes / seconds / peak : 0);
      }
    });
  } catch (const Error& error) {
    report.check("rates", false, 0, 0, 0, error.what());
  }
}

int run(const Options& options) {
  if (device_count() == 0) {
    throw UnavailableError("no CUDA device, or a driver that is older than this program");
  }
  const Facts found = facts(options.device);
  if (!options.record.empty()) {
    Workbench bench(options.device, std::int64_t{64} << 20);
    write_expected(options.record, bench);
    return 0;
  }
  if (options.expected.empty()) throw UsageError("--expected FILE is missing (--help)");
  fmt::print("device: {}, compute capability {}.{}, {} processors, {} ({} free), {:.0f} GB/s\n",
             found.name, found.major, found.minor, found.processors,
             format_bytes(found.memory_bytes), format_bytes(found.free_bytes),
             found.memory_bytes_per_second * 1e-9);
  fmt::print("driver: CUDA {}, runtime: CUDA {}\n", found.driver_version, found.runtime_version);
  Report report(options.output, found);
  {
    Limit limit(report);
    {
      Workbench bench(options.device, std::int64_t{64} << 20);
      check_exact(options, bench, report, limit);
      check_approximate(options, bench, report, limit);
    }
    if (options.memory_percent > 0) check_memory(options, report, limit);
    if (options.rate_mib > 0) {
      measure_copies(options, report, limit);
      measure_rates(options, report, limit);
    }
  }
  fmt::print("{} passed, {} failed\n", report.count() - report.failed(), report.failed());
  return report.failed() == 0 ? 0 : 70;
}

}  // namespace
}  // namespace phalanx::cuda

int main(int count, char** arguments) {
  try {
    return phalanx::cuda::run(phalanx::cuda::read_options(count, arguments));
  } catch (const phalanx::Error& error) {
    fmt::print(stderr, "check_device: {}\n", error.what());
    return error.exit_status();
  } catch (const std::exception& error) {
    fmt::print(stderr, "check_device: {}\n", error.what());
    return 70;
  }
}
