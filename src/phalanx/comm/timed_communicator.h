#pragma once
// A communicator that measures its waits: the time between asking for a message and having it
// (StepTimer::kMessages), barriers included. In a local world this includes the rank's share of the
// work on the message, which waiting ranks do.

#include <memory>

#include "phalanx/base/step_timers.h"
#include "phalanx/comm/communicator.h"

namespace phalanx {

// `inner` and `timers` must outlive it and its works.
std::unique_ptr<Communicator> timed(Communicator& inner, StepTimers& timers);
std::unique_ptr<Communicator> timed(std::unique_ptr<Communicator> inner, StepTimers& timers);

}  // namespace phalanx
