#pragma once
// The two lists that Slurm writes into the environment of a task: the step's hosts, and the number
// of tasks of each. A malformed list is a UsageError that names `variable`.

#include <string>
#include <string_view>

namespace phalanx::rendezvous {

// "n01" for "n[01-03,07],m5".
std::string first_slurm_host(std::string_view variable, std::string_view list);

struct SlurmTasks {
  int hosts = 0;    // of the step
  int tasks = 0;    // of all hosts
  int of_host = 0;  // of the host asked for
};

// "2(x3),1" means four hosts with 2, 2, 2 and 1 tasks.
SlurmTasks slurm_tasks(std::string_view variable, std::string_view list, int host);

}  // namespace phalanx::rendezvous
