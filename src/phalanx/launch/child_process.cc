#include "phalanx/launch/child_process.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string_view>

#include "phalanx/base/error.h"
#include "phalanx/base/threads.h"
#include "phalanx/rendezvous/identity.h"

namespace phalanx::launch {
namespace {

constexpr int kCannotExecute = 127;

std::vector<std::string> environment_of(const ChildOptions& options) {
  const auto is_replaced = [&](std::string_view name) {
    return std::ranges::any_of(options.environment,
                               [&](const auto& one) { return one.first == name; }) ||
           std::ranges::find(options.dropped, name) != options.dropped.end();
  };
  std::vector<std::string> variables;
  for (char** own = environ; *own != nullptr; ++own) {
    const std::string_view variable(*own);
    if (!is_replaced(variable.substr(0, variable.find('=')))) variables.emplace_back(variable);
  }
  for (const auto& [name, value] : options.environment) variables.push_back(name + "=" + value);
  return variables;
}

std::vector<std::string> words_of(const ChildOptions& options) {
  std::vector<std::string> words = {options.program.filename().string()};
  words.insert(words.end(), options.words.begin(), options.words.end());
  return words;
}

// What the child needs between fork and exec, prepared before: it may not allocate memory there.
struct Preparation {
  const char* program;
  char* const* words;
  char* const* environment;
  const ChildOptions* options;
  int nothing;  // /dev/null
  int report;   // gets errno if exec fails
  int parent;
};

// The following functions call only what POSIX allows between fork and exec.
void close_others(const Preparation& prepared) {
  constexpr unsigned kFirst = 3;
  if (::syscall(SYS_close_range, kFirst, ~0U, CLOSE_RANGE_CLOEXEC) != 0) {
    rlimit most{};
    if (::getrlimit(RLIMIT_NOFILE, &most) != 0) most.rlim_cur = 1024;
    for (int other = kFirst; other < static_cast<int>(std::min<rlim_t>(most.rlim_cur, 65536));
         ++other) {
      ::fcntl(other, F_SETFD, FD_CLOEXEC);
    }
  }
  for (const int kept : prepared.options->inherited) ::fcntl(kept, F_SETFD, 0);
}

void reset_signals() {
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  for (const int signal :
       {SIGINT, SIGTERM, SIGQUIT, SIGUSR1, SIGUSR2, SIGPIPE, SIGCHLD, SIGTSTP, SIGCONT}) {
    ::sigaction(signal, &standard, nullptr);
  }
  // A job under nohup outlives the terminal, and so do its ranks.
  struct sigaction hangup {};
  if (::sigaction(SIGHUP, nullptr, &hangup) == 0 && hangup.sa_handler != SIG_IGN) {
    ::sigaction(SIGHUP, &standard, nullptr);
  }
  // A terminal may stop background processes that write to it (stty tostop): the child would hang.
  struct sigaction ignored {};
  ignored.sa_handler = SIG_IGN;
  ::sigaction(SIGTTOU, &ignored, nullptr);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

// In the child, after fork().
[[noreturn]] void become(const Preparation& prepared) {
  const ChildOptions& options = *prepared.options;
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != prepared.parent) ::_exit(kCannotExecute);  // it died before
  ::dup2(prepared.nothing, STDIN_FILENO);
  if (options.output >= 0) ::dup2(options.output, STDOUT_FILENO);
  if (options.error >= 0) ::dup2(options.error, STDERR_FILENO);
  close_others(prepared);
  reset_signals();
  ::execve(prepared.program, prepared.words, prepared.environment);
  const int error = errno;
  [[maybe_unused]] const auto written = ::write(prepared.report, &error, sizeof error);
  ::_exit(kCannotExecute);
}

// errno of exec; 0: the program runs.
int exec_error(int report) {
  int error = 0;
  ssize_t taken = 0;
  do {
    taken = ::read(report, &error, sizeof error);
  } while (taken < 0 && errno == EINTR);
  return taken == sizeof error ? error : 0;
}

FileDescriptor watch_of(int pid) {
  const auto watch = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  if (watch >= 0) return FileDescriptor(watch);
  const int error = errno;
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
  throw SystemError("process {} cannot be watched: {}{}", pid, std::strerror(error),
                    error == ENOSYS ? " (phalanx launch needs Linux 5.3 or newer)" : "");
}

}  // namespace

ExecStrings::ExecStrings(std::vector<std::string> texts) : texts_(std::move(texts)) {
  for (const std::string& text : texts_) pointers_.push_back(text.c_str());
  pointers_.push_back(nullptr);
}

ChildProcess ChildProcess::start(const ChildOptions& options) {
  const ExecStrings words(words_of(options));
  const ExecStrings environment(environment_of(options));
  std::array<int, 2> report{};
  const FileDescriptor nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!nothing.is_open() || ::pipe2(report.data(), O_CLOEXEC) != 0) {
    throw SystemError("no descriptors for another process: {} (see ulimit -n)",
                      std::strerror(errno));
  }
  const FileDescriptor report_read(report[0]);
  FileDescriptor report_write(report[1]);
  const Preparation prepared{.program = options.program.c_str(),
                             .words = words.get(),
                             .environment = environment.get(),
                             .options = &options,
                             .nothing = nothing.get(),
                             .report = report_write.get(),
                             .parent = ::getpid()};
  const int pid = ::fork();
  if (pid == 0) become(prepared);
  if (pid < 0) {
    const int error = errno;  // reading the limits may change it
    throw SystemError("the system refuses another process: {} (ulimit -u). Limits: {}",
                      std::strerror(error), thread_limits());
  }
  ::setpgid(pid, pid);  // the child calls it, too: either may be first
  report_write.close();
  if (const int error = exec_error(report_read.get()); error != 0) {
    ::waitpid(pid, nullptr, 0);
    throw SystemError("{} cannot be executed: {}", options.program.string(), std::strerror(error));
  }
  return {pid, watch_of(pid)};
}

ChildProcess::~ChildProcess() {
  if (!watch_.is_open()) return;
  send(SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

std::optional<ChildProcess::End> ChildProcess::take_end() {
  siginfo_t info{};
  const auto id = static_cast<id_t>(pid_);
  if (!watch_.is_open() || ::waitid(P_PID, id, &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
      info.si_pid == 0) {
    return std::nullopt;
  }
  // While it is a zombie, its number cannot belong to another group.
  ::kill(-pid_, SIGKILL);
  ::waitid(P_PID, id, &info, WEXITED | WNOHANG);
  watch_.close();
  if (info.si_code == CLD_EXITED) return End{.exit_code = info.si_status, .signal = 0};
  return End{.exit_code = 0, .signal = info.si_status};
}

bool ChildProcess::send(int signal) const { return watch_.is_open() && ::kill(-pid_, signal) == 0; }

bool ChildProcess::is_stopped() const {
  return watch_.is_open() && rendezvous::is_stopped_process(pid_);
}

}  // namespace phalanx::launch
