#include "phalanx/base/threads.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <latch>
#include <utility>
#include <vector>

#include "phalanx/base/control_groups.h"
#include "phalanx/base/error.h"

namespace phalanx {

std::jthread start_thread(std::function<void()> body) { return std::jthread(std::move(body)); }

std::string thread_limits(const std::filesystem::path& root) {
  std::vector<std::string> limits;
  rlimit own{};
  if (::getrlimit(RLIMIT_NPROC, &own) == 0 && own.rlim_cur != RLIM_INFINITY) {
    limits.push_back(fmt::format("RLIMIT_NPROC {}", own.rlim_cur));
  }
  for (const ControlGroup& group : control_groups("pids", root)) {
    const auto most = group.number("pids.max");
    if (!most) continue;
    limits.push_back(fmt::format("pids.max of cgroup {} {} ({} in use)", group.name, *most,
                                 group.read("pids.current")));
  }
  if (std::string most; std::ifstream(root / "proc/sys/kernel/threads-max") >> most) {
    limits.push_back("kernel.threads-max " + most);
  }
  return limits.empty() ? "no limit can be read" : fmt::format("{}", fmt::join(limits, ", "));
}

void expect_threads(int count, const ThreadStarter& start) {
  std::latch end(1);
  std::vector<std::jthread> threads;
  threads.reserve(static_cast<std::size_t>(std::max(count, 0)));
  try {
    while (std::ssize(threads) < count) {
      threads.push_back(start([&end] { end.wait(); }));
    }
  } catch (const std::system_error& error) {
    end.count_down();
    throw_threads_refused(static_cast<int>(std::ssize(threads)), count, error);
  }
  end.count_down();
}

void throw_threads_refused(int started, int wanted, const std::system_error& reason) {
  throw SystemError(
      "{} of {} threads were started, then the system refused ({}). Limits: {}. Raise the one that "
      "is reached, or give fewer ranks (--nproc), --threads-per-rank or --num-workers",
      started, wanted, reason.code().message(), thread_limits());
}

}  // namespace phalanx
