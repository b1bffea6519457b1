#pragma once
// A rank's end of a group, whose waits are counted: the time between asking for a message and
// having it (StepTimer::kMessages), barriers included. In a local world it includes the rank's
// share of the work on the message, which waiting ranks do. Transports know nothing of it.

#include <memory>

#include "phalanx/base/step_timers.h"
#include "phalanx/comm/communicator.h"

namespace phalanx {

// `inner` and `timers` must outlive it and its works.
std::unique_ptr<Communicator> timed(Communicator& inner, StepTimers& timers);
std::unique_ptr<Communicator> timed(std::unique_ptr<Communicator> inner, StepTimers& timers);

}  // namespace phalanx
