#include "phalanx/base/memory_limits.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>

#include <cstdint>
#include <fstream>
#include <new>
#include <string_view>
#include <vector>

#include "phalanx/base/numeric.h"

namespace phalanx {
namespace {

// A line of /proc, "VmSize:   1234 kB", in bytes; 0 where it is not there.
std::int64_t bytes_of_line(const std::filesystem::path& path, std::string_view key) {
  constexpr std::int64_t kUnit = 1024;
  std::ifstream file(path);
  for (std::string name; file >> name;) {
    std::int64_t count = 0;
    if (name == key && file >> count) return count * kUnit;
    file.clear();
    std::string rest;
    std::getline(file, rest);
  }
  return 0;
}

}  // namespace

std::string memory_limits(const std::filesystem::path& root) {
  std::vector<std::string> limits;
  const auto add = [&](auto resource, std::string_view flag, std::string_view key) {
    rlimit own{};
    if (::getrlimit(resource, &own) != 0 || own.rlim_cur == RLIM_INFINITY) return;
    limits.push_back(fmt::format("{} is {}, {} of it in use", flag,
                                 format_bytes(static_cast<std::int64_t>(own.rlim_cur)),
                                 format_bytes(bytes_of_line(root / "proc/self/status", key))));
  };
  add(RLIMIT_AS, "ulimit -v", "VmSize:");
  add(RLIMIT_DATA, "ulimit -d", "VmData:");
  int policy = 0;
  std::ifstream(root / "proc/sys/vm/overcommit_memory") >> policy;
  if (constexpr int kNever = 2; policy == kNever) {
    limits.push_back(
        fmt::format("vm.overcommit_memory is 2, {} of {} are committed on this machine",
                    format_bytes(bytes_of_line(root / "proc/meminfo", "Committed_AS:")),
                    format_bytes(bytes_of_line(root / "proc/meminfo", "CommitLimit:"))));
  }
  return fmt::format("{}", fmt::join(limits, ", "));
}

std::string out_of_memory() {
  const std::string limits = memory_limits();
  return limits.empty() ? "out of memory"
                        : fmt::format("out of memory: {}: raise the limit, or take less", limits);
}

std::string text_of(const std::exception& error) {
  return dynamic_cast<const std::bad_alloc*>(&error) != nullptr ? out_of_memory() : error.what();
}

}  // namespace phalanx
