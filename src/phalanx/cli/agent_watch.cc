#include "phalanx/cli/agent_watch.h"

#include <fmt/core.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <string_view>
#include <thread>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/file_descriptor.h"
#include "phalanx/base/log.h"
#include "phalanx/base/stack_dump.h"
#include "phalanx/base/threads.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

struct ProcessFacts {
  pid_t parent = 0;
  pid_t session = 0;
  int terminal = 0;  // 0: none
};

std::optional<ProcessFacts> facts_of(const fs::path& process) {
  const std::string stat = text_of(process / "stat");
  const std::size_t name_end = stat.rfind(')');  // the name may hold anything
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(stat.substr(name_end + 1));
  char state = 0;
  pid_t group = 0;
  ProcessFacts facts;
  if (!(fields >> state >> facts.parent >> group >> facts.session >> facts.terminal)) {
    return std::nullopt;
  }
  return facts;
}

// As the process was started: what it has exported since is not seen.
bool was_started_with(const fs::path& process, std::string_view variable) {
  const std::string environment = '\0' + text_of(process / "environ");
  return environment.find('\0' + std::string(variable) + '\0') != std::string::npos;
}

class ProcessWatch final : public AgentWatch {
 public:
  ProcessWatch(std::vector<FileDescriptor> processes, std::chrono::milliseconds limit,
               std::function<void()> end)
      : processes_(std::move(processes)),
        over_(::eventfd(0, EFD_CLOEXEC)),
        limit_(limit),
        end_(std::move(end)),
        thread_(start_thread([this] { run(); })) {}
  ~ProcessWatch() override { ::eventfd_write(over_.get(), 1); }

 private:
  // Whether this object goes before `limit` (negative: none), or before one of the processes ends.
  bool is_over(bool with_processes, std::chrono::milliseconds limit) const {
    std::vector<pollfd> polled = {{.fd = over_.get(), .events = POLLIN, .revents = 0}};
    for (const FileDescriptor& process : processes_) {
      if (with_processes) polled.push_back({.fd = process.get(), .events = POLLIN, .revents = 0});
    }
    int ready = 0;
    do {
      ready = ::poll(polled.data(), polled.size(), static_cast<int>(limit.count()));
    } while (ready < 0 && errno == EINTR);
    return polled.front().revents != 0;
  }

  void run() const {
    if (is_over(true, std::chrono::milliseconds(-1))) return;
    log_warning("torchrun's agent, which started this rank, is gone: the run saves and ends");
    ::kill(::getpid(), SIGTERM);
    if (!is_over(false, limit_)) end_();
  }

  const std::vector<FileDescriptor> processes_;
  const FileDescriptor over_;
  const std::chrono::milliseconds limit_;
  const std::function<void()> end_;
  std::jthread thread_;
};

}  // namespace

std::vector<pid_t> processes_of_agent(pid_t self, const std::string& run_id, const fs::path& root) {
  const std::string variable = "TORCHELASTIC_RUN_ID=" + run_id;
  std::vector<pid_t> processes;
  const auto folder = [&root](pid_t process) { return root / "proc" / std::to_string(process); };
  auto facts = facts_of(folder(self));
  while (facts && facts->parent > 1) {
    const pid_t process = facts->parent;
    facts = facts_of(folder(process));
    if (!facts) break;
    processes.push_back(process);
    if (was_started_with(folder(process), variable)) continue;
    const bool is_interactive = facts->session == process && facts->terminal != 0;
    return is_interactive ? std::vector<pid_t>() : processes;
  }
  return {};
}

std::unique_ptr<AgentWatch> watch_processes(const std::vector<pid_t>& processes,
                                            std::chrono::milliseconds limit,
                                            std::function<void()> end) {
  std::vector<FileDescriptor> opened;
  for (const pid_t process : processes) {
    FileDescriptor one(static_cast<int>(::syscall(SYS_pidfd_open, process, 0)));
    if (one.is_open()) opened.push_back(std::move(one));
  }
  if (opened.empty()) return nullptr;
  return std::make_unique<ProcessWatch>(std::move(opened), limit, std::move(end));
}

std::unique_ptr<AgentWatch> watch_agent(const LaunchEnvironment& environment,
                                        std::chrono::milliseconds limit) {
  if (environment.source != "torchrun") return nullptr;
  struct sigaction hangup {};
  // nohup: whoever started it wants it to go on alone.
  if (::sigaction(SIGHUP, nullptr, &hangup) == 0 && hangup.sa_handler == SIG_IGN) return nullptr;
  return watch_processes(processes_of_agent(::getpid(), environment.run_id), limit, [limit] {
    log_line(LogLevel::kError,
             fmt::format("this rank has not left {:.0f} s after torchrun's agent was gone: it is "
                         "ended, and what it computed since the last checkpoint is lost",
                         std::chrono::duration<double>(limit).count()));
    dump_stacks();
    flush_log();
    ::_exit(static_cast<int>(ErrorCode::kTemporary));
  });
}

}  // namespace phalanx
