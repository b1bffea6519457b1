// How long `phalanx --help` takes from the start of its process to its end: what a user waits for
// the program before it does anything.

#include <fcntl.h>
#include <fmt/core.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "phalanx/base/error.h"

namespace phalanx::bench {
namespace {

constexpr int kRuns = 41;

double run_seconds(const std::string& program, const std::string& argument) {
  std::string name = "phalanx";
  std::string word = argument;
  std::vector<char*> words = {name.data(), word.data(), nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  const auto begin = std::chrono::steady_clock::now();
  pid_t child = 0;
  const int failure =
      posix_spawn(&child, program.c_str(), &actions, nullptr, words.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failure != 0) throw InputMissingError("{}: cannot be started", program);
  int status = 0;
  waitpid(child, &status, 0);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    throw SystemError("{} {} failed", program, argument);
  }
  return elapsed.count();
}

void measure(const std::string& program, const std::string& argument) {
  std::vector<double> seconds;
  for (int i = 0; i < kRuns; ++i) seconds.push_back(run_seconds(program, argument));
  std::ranges::sort(seconds);
  fmt::print("phalanx {:<10} {:>6.1f} ms median of {}, {:.1f} to {:.1f}\n", argument,
             seconds[kRuns / 2] * 1e3, kRuns, seconds.front() * 1e3, seconds.back() * 1e3);
}

// The program beside this one's directory: build/release/phalanx for build/release/bench/.
std::string default_program() {
  const auto self = std::filesystem::read_symlink("/proc/self/exe");
  return self.parent_path().parent_path() / "phalanx";
}

}  // namespace
}  // namespace phalanx::bench

int main(int argc, char** argv) {
  using namespace phalanx::bench;
  try {
    const std::string program = argc > 1 ? argv[1] : default_program();
    measure(program, "--help");
    measure(program, "version");
    return 0;
  } catch (const phalanx::Error& error) {
    fmt::print(stderr, "bench_startup: {}\n", error.what());
    return error.exit_status();
  }
}
