#pragma once
// torchrun's agent starts ranks and leaves them behind when it is killed: they would train on, and
// hold --save against whoever starts the run again. So a rank watches the agent, where torchrun's
// variables say that one started it. What a shell, nohup or tmux started goes on without it.

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "phalanx/rendezvous/launch_environment.h"

namespace phalanx {

class AgentWatch {
 public:
  virtual ~AgentWatch() = default;
  AgentWatch(const AgentWatch&) = delete;
  AgentWatch& operator=(const AgentWatch&) = delete;

 protected:
  AgentWatch() = default;
};

// The processes by which torchrun's agent started process `self`: its parent, which may be a script
// of the agent's, and so on up to the agent, which alone does not have torchrun's variables. Empty:
// no agent is known. An interactive shell is none, though it may have exported the variables.
std::vector<pid_t> processes_of_agent(pid_t self, const std::string& run_id,
                                      const std::filesystem::path& root = "/");

// When one of the processes ends, this process gets SIGTERM, which saves; `end` is called if it is
// still there `limit` later. Null: nothing is to be watched.
std::unique_ptr<AgentWatch> watch_processes(const std::vector<pid_t>& processes,
                                            std::chrono::milliseconds limit,
                                            std::function<void()> end);

// Watches the agent of this process, a rank of a run; null where there is none. A rank that does
// not leave within `limit` ends with 75.
std::unique_ptr<AgentWatch> watch_agent(const LaunchEnvironment& environment,
                                        std::chrono::milliseconds limit);

}  // namespace phalanx
