#include "phalanx/base/machine.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#include "phalanx/base/control_groups.h"
#include "phalanx/base/cpu_affinity.h"
#include "phalanx/base/error.h"
#include "phalanx/base/parse_number.h"

namespace phalanx {
namespace {

// The quota in cores; empty without a limit.
std::optional<double> quota_of(const ControlGroup& group) {
  if (group.version == 2) {
    // "50000 100000", "max 100000"
    const std::string text = group.read("cpu.max");
    double quota = 0.0, period = 0.0;
    if (std::sscanf(text.c_str(), "%lf %lf", &quota, &period) != 2 || period <= 0.0) return {};
    return quota / period;
  }
  const auto quota = group.number("cpu.cfs_quota_us");
  const auto period = group.number("cpu.cfs_period_us");
  if (!quota || !period || *quota <= 0 || *period <= 0) return {};
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

std::string count_text(int count) { return fmt::format("{} core{}", count, count == 1 ? "" : "s"); }

// Memory of the group that the kernel frees before it kills a process.
std::int64_t page_cache(const ControlGroup& group) {
  const bool unified = group.version == 2;
  const auto of = [&](const char* key) { return group.number("memory.stat", key).value_or(0); };
  return unified ? of("inactive_file") + of("active_file")
                 : of("total_inactive_file") + of("total_active_file");
}

std::optional<std::int64_t> memory_left(const ControlGroup& group) {
  const bool unified = group.version == 2;
  const auto limit = group.number(unified ? "memory.max" : "memory.limit_in_bytes");
  const auto used = group.number(unified ? "memory.current" : "memory.usage_in_bytes");
  if (!limit || !used) return std::nullopt;
  return std::max<std::int64_t>(0, *limit - std::max<std::int64_t>(0, *used - page_cache(group)));
}

// "MemAvailable:   23456 kB"
std::optional<std::int64_t> memory_of_machine(const std::filesystem::path& root) {
  std::ifstream file(root / "proc/meminfo");
  for (std::string key; file >> key;) {
    std::int64_t kibibytes = 0;
    if (key == "MemAvailable:" && file >> kibibytes) return kibibytes << 10;
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return std::nullopt;
}

}  // namespace

UsableCores usable_cores(const std::filesystem::path& root) {
  const int machine = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  UsableCores cores{machine, count_text(machine)};
  const auto allowed = static_cast<int>(cores_of_thread().size());
  if (allowed > 0 && allowed < machine) cores = {allowed, count_text(allowed) + " by affinity"};
  for (const ControlGroup& group : control_groups("cpu", root)) {
    const auto quota = quota_of(group);
    if (!quota || *quota >= cores.count) continue;
    const int count = std::max(1, static_cast<int>(*quota));
    cores = {count, fmt::format("{} by {} of cgroup {}", count_text(count),
                                group.version == 2 ? "cpu.max" : "cpu.cfs_quota_us", group.name)};
  }
  return cores;
}

UsableCores default_threads(std::int64_t ranks) {
  constexpr int kMost = 1024;
  const char* const variable = std::getenv("OMP_NUM_THREADS");
  if (variable != nullptr && *variable != '\0') {
    // Further numbers are of teams within teams.
    const std::string_view text(variable);
    const auto threads = parse_number<int>(text.substr(0, text.find(',')));
    if (!threads || *threads < 1 || *threads > kMost) {
      throw UsageError(
          "OMP_NUM_THREADS='{}' is no number of threads from 1 to {}: unset it, or give "
          "--threads-per-rank",
          text, kMost);
    }
    return {*threads, "by OMP_NUM_THREADS"};
  }
  UsableCores cores = usable_cores();
  if (ranks == 1) return cores;
  return {static_cast<int>(std::max<std::int64_t>(1, cores.count / ranks)),
          fmt::format("{}, shared by {} ranks", cores.reason, ranks)};
}

AvailableMemory available_memory(const std::filesystem::path& root) {
  AvailableMemory memory{std::numeric_limits<std::int64_t>::max(), "nothing"};
  if (const auto bytes = memory_of_machine(root)) memory = {*bytes, "MemAvailable"};
  for (const ControlGroup& group : control_groups("memory", root)) {
    const auto bytes = memory_left(group);
    if (!bytes || *bytes >= memory.bytes) continue;
    memory = {*bytes,
              fmt::format("{} of cgroup {}",
                          group.version == 2 ? "memory.max" : "memory.limit_in_bytes", group.name)};
  }
  return memory;
}

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') return "localhost";
  return name.data();
}

std::string processor_name(const std::filesystem::path& root) {
  std::ifstream file(root / "proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const auto colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return {};
}

std::int64_t physical_memory() {
  const auto pages = ::sysconf(_SC_PHYS_PAGES);
  const auto bytes = ::sysconf(_SC_PAGESIZE);
  return pages > 0 && bytes > 0 ? static_cast<std::int64_t>(pages) * bytes : 0;
}

}  // namespace phalanx
