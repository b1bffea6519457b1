#pragma once
// A program as a child: exec'ed in a process group of its own, with nothing to read, killed by the
// kernel when the thread that started it ends.

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "phalanx/launch/descriptor.h"

namespace phalanx::launch {

struct ChildOptions {
  std::filesystem::path program;
  std::vector<std::string> words;                                // behind the program's name
  std::vector<std::pair<std::string, std::string>> environment;  // beside the launcher's own
  std::vector<std::string> dropped;  // of the launcher's own, these are not passed on
  int output = -1;                   // descriptors that become its standard output and error;
  int error = -1;                    // -1: the launcher's own
  std::vector<int> inherited;        // stay open under their numbers; all others are closed
};

class ChildProcess {
 public:
  // By the thread that outlives it. SystemError where the system refuses, with the limits, or the
  // program cannot be executed.
  static ChildProcess start(const ChildOptions& options);

  ChildProcess(ChildProcess&&) noexcept = default;
  ChildProcess& operator=(ChildProcess&&) noexcept = default;
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;
  // What still runs is killed.
  ~ChildProcess();

  int pid() const { return pid_; }
  // Readable when it has ended.
  int watch_descriptor() const { return watch_.get(); }

  struct End {
    int exit_code = 0;
    int signal = 0;
  };
  // Takes what has ended, with what is left of its process group; empty while it runs.
  std::optional<End> take_end();
  // To it and its process group. False where it has ended.
  bool send(int signal) const;
  // It cannot be ended now, and nobody waits for it any more. The kernel ends it when it can: it
  // was told to.
  void abandon() { watch_.close(); }
  // Whether it was stopped (SIGSTOP), so that nothing but SIGKILL and SIGCONT reaches it.
  bool is_stopped() const;

 private:
  ChildProcess(int pid, Descriptor watch) : pid_(pid), watch_(std::move(watch)) {}

  int pid_ = -1;
  Descriptor watch_;
};

// Environments and words in the form that execve() takes.
class ExecStrings {
 public:
  explicit ExecStrings(std::vector<std::string> texts);
  char* const* get() const { return const_cast<char* const*>(pointers_.data()); }

 private:
  std::vector<std::string> texts_;
  std::vector<const char*> pointers_;
};

}  // namespace phalanx::launch
