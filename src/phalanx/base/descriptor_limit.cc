#include "phalanx/base/descriptor_limit.h"

#include <sys/resource.h>

#include <filesystem>
#include <iterator>

#include "phalanx/base/error.h"

namespace phalanx {
namespace {

// The open descriptors of this process; some dozens where /proc cannot be read.
std::size_t open_descriptors() {
  constexpr std::size_t kGuess = 64;
  std::error_code error;
  const std::filesystem::directory_iterator all("/proc/self/fd", error);
  if (error) return kGuess;
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

}  // namespace

void raise_descriptor_limit(std::size_t needed, std::string_view what) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;  // the first refused one will say it
  const std::size_t open = open_descriptors();
  const std::size_t wanted = open + needed;
  if (wanted <= limit.rlim_cur) return;
  if (wanted > limit.rlim_max) {
    throw SystemError(
        "{} needs {} more file descriptors, {} are open, and this process may have {}: raise the "
        "hard limit (ulimit -Hn, LimitNOFILE of systemd, /etc/security/limits.conf)",
        what, needed, open, limit.rlim_max);
  }
  const rlim_t before = limit.rlim_cur;
  limit.rlim_cur = limit.rlim_max;
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) {
    throw SystemError(
        "{} needs {} more file descriptors, {} are open, and the limit of {} cannot be raised "
        "(ulimit -n)",
        what, needed, open, before);
  }
}

}  // namespace phalanx
