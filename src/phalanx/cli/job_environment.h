#pragma once
// Which job this process is an attempt of, and how often that was started again, as its launchers
// tell in the environment.

#include <functional>
#include <string>
#include <vector>

#include "phalanx/settings/train_config.h"

namespace phalanx {

// The variable's value; null where it is not set.
using JobVariable = std::function<const char*(const char* name)>;

// The launcher first, Slurm after it. `parent` tells the parent process from all others there ever
// were. The names:
//   phalanx launch  a random one of each launch (PHALANX_LAUNCH)
//   torchrun        the agent, which is the parent of all attempts: TORCHELASTIC_RUN_ID alone is
//                   "none" unless somebody gives one, and may be given twice
//   Slurm           cluster and number of the job
// UsageError where a count (TORCHELASTIC_RESTART_COUNT, SLURM_RESTART_COUNT) is none.
std::vector<JobName> job_of_environment(const JobVariable& variable, const std::string& parent);
// Of this process. Sets `restarts` too: a count counts even where the job has no name.
void read_job(RunConfig& run);

}  // namespace phalanx
