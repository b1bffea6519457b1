#pragma once
// Threads that the system may refuse to start.

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <system_error>
#include <thread>

namespace phalanx {

// Starts a thread that runs `body`; std::system_error if the system refuses. Tests replace it.
using ThreadStarter = std::function<std::jthread(std::function<void()> body)>;
std::jthread start_thread(std::function<void()> body);

// The calling thread gives way to others from now on, where the system lets it: a nice value, at
// which it still gets a share of a core that another thread fills (5: a quarter, 10: a tenth), and
// the lowest priority among those that read and write.
void give_way(int nice);

// The known limits on threads of this process: "RLIMIT_NPROC 4096, pids.max of cgroup /job 64 (60
// in use), kernel.threads-max 95000". `root` as for control_groups().
std::string thread_limits(const std::filesystem::path& root = "/");

// SystemError unless `count` threads can run beside the calling one: starts and ends that many.
// So a run that lacks threads ends before it begins.
void expect_threads(int count, const ThreadStarter& start = start_thread);

// Calls body(0) ... body(count - 1), each once, on up to `threads` threads including the calling
// one; on fewer if the system refuses to start more. All calls are made even if some fail; then the
// first call's exception is thrown.
void run_parallel(std::size_t count, int threads, const std::function<void(std::size_t)>& body,
                  const ThreadStarter& start = start_thread);

// Throws the error of a refused thread, with the number of started threads and the limits.
[[noreturn]] void throw_threads_refused(int started, int wanted, const std::system_error& reason);

}  // namespace phalanx
