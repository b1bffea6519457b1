#pragma once
// The job that this process is an attempt of, and how often it was started again, from the
// environment variables of its launchers.

#include <functional>
#include <string>
#include <vector>

#include "phalanx/settings/train_config.h"

namespace phalanx {

// The value of a variable; null if it is not set.
using JobVariable = std::function<const char*(const char* name)>;

// The launchers of the job: torchrun or phalanx launch first, then Slurm. `parent` identifies the
// parent process among all that ever ran. The names:
//   phalanx launch  a random one of each launch (PHALANX_LAUNCH)
//   torchrun        the agent, which is the parent of all attempts: TORCHELASTIC_RUN_ID alone is
//                   "none" unless somebody gives one, and may be given twice
//   Slurm           cluster and number of the job
// UsageError if a count (TORCHELASTIC_RESTART_COUNT, SLURM_RESTART_COUNT) is not a number.
std::vector<JobName> job_of_environment(const JobVariable& variable, const std::string& parent);
// Does the same for this process. Sets `restarts` too, even if the job has no name.
void read_job(RunConfig& run);

}  // namespace phalanx
