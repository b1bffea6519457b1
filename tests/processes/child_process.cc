#include "child_process.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <thread>

namespace phalanx::processes {
namespace {

constexpr std::string_view kOfRanks[] = {"RANK=",          "WORLD_SIZE=",  "LOCAL_",
                                         "GROUP_",         "ROLE_",        "MASTER_",
                                         "SLURM_",         "SRUN_",        "PMI",
                                         "TORCHELASTIC_",  "PHALANX_RDZV", "PHALANX_COORDINATOR",
                                         "PHALANX_LAUNCH", "UCX_"};

bool speaks_of_ranks(std::string_view variable) {
  for (const std::string_view name : kOfRanks) {
    if (variable.starts_with(name)) return true;
  }
  return false;
}

std::vector<std::string> environment_of(const ChildOptions& options) {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (!speaks_of_ranks(*variable)) variables.emplace_back(*variable);
  }
  for (const auto& [name, value] : options.environment) {
    variables.push_back(std::string(name).append("=").append(value));
  }
  return variables;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (std::string& text : texts) all.push_back(text.data());
  all.push_back(nullptr);
  return all;
}

int open_or_throw(const std::string& path, int flags) {
  const int descriptor = ::open(path.c_str(), flags | O_CLOEXEC, 0600);
  if (descriptor < 0) throw std::system_error(errno, std::generic_category(), path);
  return descriptor;
}

}  // namespace

ChildProcess::ChildProcess(const ChildOptions& options)
    : directory_(options.directory), name_(options.name) {
  std::vector<std::string> words = options.words;
  std::vector<std::string> variables = environment_of(options);
  const std::vector<char*> arguments = pointers(words);
  const std::vector<char*> environment = pointers(variables);
  const std::string file = (directory_ / name_).string();
  constexpr int kWrite = O_WRONLY | O_CREAT | O_TRUNC;
  const int in = open_or_throw("/dev/null", O_RDONLY);
  const int out = open_or_throw(file + ".out", kWrite);
  const int err = open_or_throw(file + ".err", kWrite);
  const auto open_namespace = [&](const char* kind) {
    const std::string path = "/proc/" + std::to_string(options.host_of) + "/ns/" + kind;
    return options.host_of == 0 ? -1 : open_or_throw(path, O_RDONLY);
  };
  const int network = open_namespace("net");
  const int mounts = open_namespace("mnt");
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ == 0) {
    // Killed with the test, whatever becomes of it.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(126);
    ::setpgid(0, 0);
    if (network >= 0 && ::setns(network, CLONE_NEWNET) != 0) ::_exit(126);
    if (mounts >= 0 && ::setns(mounts, CLONE_NEWNS) != 0) ::_exit(126);
    if (::chdir(directory_.c_str()) != 0) ::_exit(126);
    ::dup2(in, STDIN_FILENO);
    ::dup2(out, STDOUT_FILENO);
    ::dup2(err, STDERR_FILENO);
    ::execvpe(arguments[0], arguments.data(), environment.data());
    ::_exit(127);
  }
  for (const int descriptor : {in, out, err, network, mounts}) {
    if (descriptor >= 0) ::close(descriptor);
  }
  if (pid_ < 0) throw std::system_error(errno, std::generic_category(), "fork");
}

ChildProcess::~ChildProcess() {
  if (pid_ <= 0 || status_) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : directory_(std::move(other.directory_)),
      name_(std::move(other.name_)),
      pid_(other.pid_),
      status_(other.status_) {
  other.pid_ = 0;
}

void ChildProcess::signal(int number) const {
  if (!status_) ::kill(pid_, number);
}

std::optional<int> ChildProcess::wait(std::chrono::milliseconds limit) {
  eventually(limit, [this] {
    int status = 0;
    if (!status_ && ::waitpid(pid_, &status, WNOHANG) == pid_) {
      status_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    }
    return status_.has_value();
  });
  return status_;
}

std::string ChildProcess::read(const char* ending) const {
  std::ifstream file(directory_ / (name_ + ending), std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

bool eventually(std::chrono::milliseconds limit, const std::function<bool()>& yes) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!yes()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

}  // namespace phalanx::processes
