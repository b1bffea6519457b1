#pragma once
// A program that runs beside the test, and is gone when the test is.

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace phalanx::processes {

struct ChildOptions {
  std::vector<std::string> words;   // the program first
  std::filesystem::path directory;  // where it works
  std::string name;                 // its output is in directory/NAME.out and NAME.err
  // What of the test's environment speaks of ranks is left out, this is added.
  std::map<std::string, std::string> environment{};
  pid_t host_of = 0;  // it lives in the network and mount namespaces of that process; 0: the test's
};

class ChildProcess {
 public:
  explicit ChildProcess(const ChildOptions& options);
  ~ChildProcess();  // SIGKILL, where it still runs
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;

  pid_t pid() const { return pid_; }
  const std::string& name() const { return name_; }
  void signal(int number) const;
  // Its exit status, 128 + the signal that ended it; empty where it still runs after `limit`.
  std::optional<int> wait(std::chrono::milliseconds limit);
  std::string out() const { return read(".out"); }
  std::string err() const { return read(".err"); }

 private:
  std::string read(const char* ending) const;

  std::filesystem::path directory_;
  std::string name_;
  pid_t pid_ = 0;
  std::optional<int> status_;
};

// Asks until it says yes, at most for `limit`.
bool eventually(std::chrono::milliseconds limit, const std::function<bool()>& yes);

}  // namespace phalanx::processes
