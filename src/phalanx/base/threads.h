#pragma once
// Threads that the system may refuse to start.

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <system_error>
#include <thread>

namespace phalanx {

// Starts a thread that runs `body`; std::system_error where the system refuses. Tests replace it.
using ThreadStarter = std::function<std::jthread(std::function<void()> body)>;
std::jthread start_thread(std::function<void()> body);

// What limits the threads of this process, as far as it can be read: "RLIMIT_NPROC 4096, pids.max
// of cgroup /job 64 (60 in use), kernel.threads-max 95000". `root` as for control_groups().
std::string thread_limits(const std::filesystem::path& root = "/");

// SystemError unless `count` threads can run beside the calling one: starts that many and ends
// them. OpenMP would end the process without an error of ours where its threads cannot be started.
void expect_threads(int count, const ThreadStarter& start = start_thread);

// Calls body(0) ... body(count - 1), each once, on up to `threads` threads including the calling
// one; on fewer where the system refuses to start more. All calls are made even if some fail; then
// the exception of the first call that failed is thrown.
void run_parallel(std::size_t count, int threads, const std::function<void(std::size_t)>& body,
                  const ThreadStarter& start = start_thread);

// Throws the error of a refused thread, with how many were started and the limits.
[[noreturn]] void throw_threads_refused(int started, int wanted, const std::system_error& reason);

}  // namespace phalanx
