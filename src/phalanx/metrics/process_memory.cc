#include "phalanx/metrics/process_memory.h"

#include <sys/resource.h>

#include <charconv>
#include <fstream>
#include <sstream>
#include <string>

namespace phalanx {
namespace {

// getrusage() is only the fallback: its peak survives exec, so it may be the shell's or the test
// driver's.
std::int64_t bytes_of(std::string_view key) {
  std::ostringstream status;
  status << std::ifstream("/proc/self/status").rdbuf();
  const auto bytes = detail::status_bytes(status.str(), key);
  if (bytes >= 0) return bytes;
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return std::int64_t{usage.ru_maxrss} * 1024;
}

}  // namespace

std::int64_t resident_bytes() { return bytes_of("VmRSS"); }
std::int64_t peak_resident_bytes() { return bytes_of("VmHWM"); }

namespace detail {

std::int64_t status_bytes(std::string_view status, std::string_view key) {
  const std::string name = "\n" + std::string(key) + ":";
  auto at = status.find(name);
  if (at == std::string_view::npos) return -1;
  at = status.find_first_not_of(" \t", at + name.size());
  if (at == std::string_view::npos) return -1;
  std::int64_t kibibytes = 0;
  const auto result = std::from_chars(status.data() + at, status.data() + status.size(), kibibytes);
  return result.ec == std::errc() ? kibibytes * 1024 : -1;
}

}  // namespace detail
}  // namespace phalanx
