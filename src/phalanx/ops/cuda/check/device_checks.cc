#include "phalanx/ops/cuda/check/device_checks.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/base/numeric.h"
#include "phalanx/cuda/kernel.h"
#include "phalanx/ops/cuda/check/checks.h"
#include "phalanx/ops/cuda/check/expected.h"
#include "phalanx/ops/cuda/check/members-inl.h"
#include "phalanx/ops/cuda/check/model_products.h"
#include "phalanx/ops/cuda/check/timed.h"

namespace phalanx::cuda {
namespace {

// Operands of the checks that compare, and their scratch memory.
constexpr std::int64_t kBenchBytes = std::int64_t{16} << 20;
constexpr std::int64_t kMebibyte = std::int64_t{1} << 20;

// Seconds that a check may take on a device; the first product opens half a gigabyte of library.
constexpr double kExactSeconds = 20;
constexpr double kApproximateSeconds = 60;
constexpr double kMemorySeconds = 60;
constexpr double kCopySeconds = 30;
constexpr double kRateSeconds = 60;

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Runs a check that fills in its result, and tells it; what it throws is a failure.
template <typename Run>
void tell(CheckSink& sink, const std::string& name, double seconds, double tolerance,
          const Run& run) {
  sink.begin(name, seconds);
  CheckResult result{.name = name, .tolerance = tolerance};
  const auto begin = Clock::now();
  try {
    run(result);
  } catch (const Error& error) {
    result.passed = false;
    result.more = error.what();
  }
  result.seconds = seconds_since(begin);
  sink.add(result);
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

void check_digest(const ExactCheck& check, const Expected& expected, Workbench& bench,
                  CheckResult& result) {
  bench.clear();
  const std::vector<std::byte> first = check.run(bench);
  bench.clear();
  result.passed = check.run(bench) == first;
  if (!result.passed) result.more = "two runs differ; ";
  const auto entry = expected.find(check.name);
  if (entry == expected.end()) {
    result.passed = false;
    result.more += "there is no digest of this name";
    return;
  }
  const Digest found = digest_parts(first);
  if (found == entry->second) return;
  result.passed = false;
  result.more +=
      fmt::format("{} bytes of {}, parts that differ:", found.bytes, entry->second.bytes);
  for (std::size_t i = 0; i < found.parts.size() && i < entry->second.parts.size(); ++i) {
    if (found.parts[i] != entry->second.parts[i]) result.more += fmt::format(" {}", i);
  }
  result.more += "; it begins with" + text_of(first);
}

void check_digests(const DeviceCheckOptions& options, CheckSink& sink) {
  const std::string text = options.digests.empty() ? built_in_digests() : options.digests;
  const Expected expected = parse_expected(text, "expected.txt");
  Workbench bench(options.device, kBenchBytes);
  for (const ExactCheck& check : all_exact_checks()) {
    tell(sink, check.name, kExactSeconds, 0,
         [&](CheckResult& result) { check_digest(check, expected, bench, result); });
  }
}

bool is_product(const ApproximateCheck& check) { return check.name.starts_with("product"); }

void check_approximate(const DeviceCheckOptions& options, bool products, CheckSink& sink) {
  Workbench bench(options.device, kBenchBytes);
  for (const ApproximateCheck& check : all_approximate_checks()) {
    if (is_product(check) != products) continue;
    tell(sink, check.name, kApproximateSeconds, check.tolerance, [&](CheckResult& result) {
      bench.clear();
      result.error = check.error(bench);
      result.passed = result.error <= check.tolerance;
    });
  }
}

// Memory of a device or of the host that copies use, given back at the end.
class DeviceMemory {
 public:
  DeviceMemory(int device, std::int64_t bytes)
      : device_(device), memory_(allocate(device, bytes)) {}
  ~DeviceMemory() { give_back(device_, memory_); }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  std::byte* get() const { return memory_; }

 private:
  int device_;
  std::byte* memory_;
};
class PinnedMemory {
 public:
  explicit PinnedMemory(std::int64_t bytes) : memory_(allocate_pinned(bytes)) {}
  ~PinnedMemory() { give_back_pinned(memory_); }
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;
  std::byte* get() const { return memory_; }

 private:
  std::byte* memory_;
};
class OwnQueue {
 public:
  explicit OwnQueue(int device) : queue_(make_queue(device)) {}
  ~OwnQueue() { give_back(queue_); }
  OwnQueue(const OwnQueue&) = delete;
  OwnQueue& operator=(const OwnQueue&) = delete;
  Queue get() const { return queue_; }

 private:
  Queue queue_;
};

void check_memory(const DeviceCheckOptions& options, CheckSink& sink) {
  const std::int64_t bytes = options.bytes / 4096 * 4096;
  tell(sink, fmt::format("memory: {} written and read twice", format_bytes(bytes)), kMemorySeconds,
       0, [&](CheckResult& result) {
         const DeviceMemory memory(options.device, bytes);
         const DeviceMemory count(options.device, 8);
         const PinnedMemory pinned(8);
         const OwnQueue queue(options.device);
         std::uint64_t wrong = 0;
         for (const std::uint32_t salt : {0U, 0x55555555U}) {
           const std::int64_t words = bytes / 4;
           const Grid grid{ceil_div(words, MemoryMember::kWords)};
           auto* at = reinterpret_cast<std::uint32_t*>(memory.get());
           auto* counted = reinterpret_cast<std::uint64_t*>(count.get());
           set_bytes(queue.get(), count.get(), 0, 8);
           launch<MemoryMember>(queue.get(), grid, {at, words, salt, nullptr});
           launch<MemoryMember>(queue.get(), grid, {at, words, salt, counted});
           copy(queue.get(), pinned.get(), count.get(), 8);
           wait_host(queue.get());
           std::uint64_t found = 0;
           std::memcpy(&found, pinned.get(), 8);
           wrong += found;
         }
         result.passed = wrong == 0;
         result.error = static_cast<double>(wrong);
         if (wrong > 0) result.more = fmt::format("{} words are others than were written", wrong);
       });
}

void measure_copies(const DeviceCheckOptions& options, CheckSink& sink) {
  tell(sink, "copies", kCopySeconds, 0, [&](CheckResult& result) {
    const std::int64_t bytes = options.bytes;
    const DeviceMemory memory(options.device, bytes);
    const PinnedMemory there(bytes);
    const PinnedMemory back(bytes);
    const OwnQueue queue(options.device);
    for (std::int64_t i = 0; i < bytes; ++i)
      there.get()[i] = static_cast<std::byte>(i * 7 + i / 251);
    const double up = median_seconds(queue.get(), options.device,
                                     [&] { copy(queue.get(), memory.get(), there.get(), bytes); });
    const double down = median_seconds(queue.get(), options.device,
                                       [&] { copy(queue.get(), back.get(), memory.get(), bytes); });
    result.passed = std::memcmp(there.get(), back.get(), static_cast<std::size_t>(bytes)) == 0;
    if (!result.passed) result.more = "what came back is not what was sent";
    const auto size = static_cast<double>(bytes);
    sink.add({.name = "copy to the device", .value = size / up * 1e-9, .unit = "GB/s"});
    sink.add({.name = "copy from the device", .value = size / down * 1e-9, .unit = "GB/s"});
  });
}

void check_products(const DeviceCheckOptions& options, CheckSink& sink) {
  check_approximate(options, true, sink);
  sink.begin("products of models: memory", kMemorySeconds);
  Workbench bench(options.device, model_product_bytes(options.product_divisor));
  check_model_products(bench, options.product_divisor, sink);
}

void measure_rates(const DeviceCheckOptions& options, CheckSink& sink) {
  const Facts device = facts(options.device);
  sink.begin("rates: memory", kMemorySeconds);
  Workbench bench(options.device, options.bytes + kMebibyte);
  for_rates(bench, options.bytes, [&](const Rate& rate) {
    sink.begin(rate.name, kRateSeconds);
    const double seconds = median_seconds(bench.queue(), options.device, rate.enqueue);
    const bool computes = rate.flops > 0;
    const double work = computes ? rate.flops : rate.bytes;
    const double peak = computes ? peak_flops(device) : device.memory_bytes_per_second;
    sink.add({.name = rate.name,
              .value = work / seconds * (computes ? 1e-12 : 1e-9),
              .unit = computes ? "TFLOP/s" : "GB/s",
              .share_of_peak = peak > 0 ? work / seconds / peak : 0});
  });
}

}  // namespace

void check_device(DevicePart part, const DeviceCheckOptions& options, CheckSink& sink) {
  switch (part) {
    case DevicePart::kMemory:
      return check_memory(options, sink);
    case DevicePart::kCopies:
      return measure_copies(options, sink);
    case DevicePart::kDigests:
      return check_digests(options, sink);
    case DevicePart::kFunctions:
      return check_approximate(options, false, sink);
    case DevicePart::kProducts:
      return check_products(options, sink);
    case DevicePart::kRates:
      return measure_rates(options, sink);
  }
}

}  // namespace phalanx::cuda
