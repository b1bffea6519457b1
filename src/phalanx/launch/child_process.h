#pragma once
// A program as a child process: in a process group of its own, with /dev/null as its input; the
// kernel kills it when the thread that started it ends.

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "phalanx/base/file_descriptor.h"

namespace phalanx::launch {

struct ChildOptions {
  std::filesystem::path program;
  std::vector<std::string> words;                                // after the program's name
  std::vector<std::pair<std::string, std::string>> environment;  // added to the launcher's own
  std::vector<std::string> dropped;  // variables of the launcher that are not passed on
  int output = -1;                   // descriptors that become its standard output and error;
  int error = -1;                    // -1: the launcher's own
  std::vector<int> inherited;        // descriptors that stay open; all others are closed
};

class ChildProcess {
 public:
  // To be called by a thread that outlives the child. SystemError if the system refuses a process
  // (with the limits), or the program cannot be executed.
  static ChildProcess start(const ChildOptions& options);

  ChildProcess(ChildProcess&&) noexcept = default;
  ChildProcess& operator=(ChildProcess&&) noexcept = default;
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;
  // Kills it if it still runs.
  ~ChildProcess();

  int pid() const { return pid_; }
  // Readable when it has ended.
  int watch_descriptor() const { return watch_.get(); }

  struct End {
    int exit_code = 0;
    int signal = 0;
  };
  // How it ended; empty while it runs. Kills what is left of its process group.
  std::optional<End> take_end();
  // Sends a signal to it and its process group. False if it has ended.
  bool send(int signal) const;
  // Gives up waiting for a process that cannot be ended now. It has been sent SIGKILL: the kernel
  // ends it when it can.
  void abandon() { watch_.close(); }
  // Whether it is stopped (SIGSTOP), so that only SIGKILL and SIGCONT have an effect.
  bool is_stopped() const;

 private:
  ChildProcess(int pid, FileDescriptor watch) : pid_(pid), watch_(std::move(watch)) {}

  int pid_ = -1;
  FileDescriptor watch_;
};

// Texts in the form that execve() takes.
class ExecStrings {
 public:
  explicit ExecStrings(std::vector<std::string> texts);
  char* const* get() const { return const_cast<char* const*>(pointers_.data()); }

 private:
  std::vector<std::string> texts_;
  std::vector<const char*> pointers_;
};

}  // namespace phalanx::launch
