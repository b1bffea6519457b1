#pragma once
// Runs this process as one rank of many: it joins the others, agrees with them, and sends messages
// by UCX.

#include <chrono>
#include <functional>
#include <memory>

#include "phalanx/rendezvous/launch_environment.h"
#include "phalanx/settings/train_config.h"
#include "phalanx/start/rank_runner.h"

namespace phalanx {

// Returns when all ranks have joined. UnavailableError (69) where some do not come in time or
// nobody answers, PermissionError (77) where there are several hosts and no secret, or another one,
// ConfigError (78) where the ranks' places contradict each other. `poll` is asked meanwhile; what
// it throws ends the joining.
std::unique_ptr<RankRunner> make_process_runner(const LaunchEnvironment& environment,
                                                const RunConfig& run,
                                                std::chrono::milliseconds timeout,
                                                const std::function<void()>& poll);

// Ends this process with the failure's code, for it cannot leave the run. Says so first.
[[noreturn]] void end_stuck_rank(const RankFailure& failure);

}  // namespace phalanx
