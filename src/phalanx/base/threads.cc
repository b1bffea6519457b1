#include "phalanx/base/threads.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <fstream>
#include <latch>
#include <utility>
#include <vector>

#include "phalanx/base/control_groups.h"
#include "phalanx/base/error.h"
#include "phalanx/base/memory_limits.h"

namespace phalanx {

std::jthread start_thread(std::function<void()> body) { return std::jthread(std::move(body)); }

void give_way(int nice) {
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::syscall(SYS_gettid)), nice);
  constexpr int kWhoProcess = 1, kBestEffort = 2, kClassShift = 13, kLowest = 7;
  ::syscall(SYS_ioprio_set, kWhoProcess, 0, (kBestEffort << kClassShift) | kLowest);
}

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
  // A thread's stack is memory.
  if (std::string memory = memory_limits(root); !memory.empty()) limits.push_back(memory);
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

void run_parallel(std::size_t count, int threads, const std::function<void(std::size_t)>& body,
                  const ThreadStarter& start) {
  std::vector<std::exception_ptr> failures(count);
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < count; i = next++) {
      try {
        body(i);
      } catch (...) {
        failures[i] = std::current_exception();
      }
    }
  };
  {
    std::vector<std::jthread> others;
    try {
      while (others.size() + 1 < std::min(count, static_cast<std::size_t>(std::max(threads, 1)))) {
        others.push_back(start(work));
      }
    } catch (const std::system_error&) {
      // The started threads share the work.
    }
    work();
  }
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

void throw_threads_refused(int started, int wanted, const std::system_error& reason) {
  throw SystemError(
      "{} of {} threads were started, then the system refused ({}). Limits: {}. Raise the one that "
      "is reached, or give fewer ranks (--nproc), --threads-per-rank or --num-workers",
      started, wanted, reason.code().message(), thread_limits());
}

}  // namespace phalanx
