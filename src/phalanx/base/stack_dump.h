#pragma once
// Writes the native stacks of all threads of the running process, to show where a rank hangs.
// Nothing stops: each thread writes its own stack in a signal handler and continues. Names are the
// program's dynamic symbols, mangled (c++filt reads them):
//
//   rank 3 thread 4711 phalanx: phalanx(_ZN7phalanx9Communicator3runEv+0x1c) [0x55d0c0ffee00]

#include <csignal>

namespace phalanx {

// Afterwards `signal` (0: none) and dump_stacks() write the stacks to the descriptor. `rank` starts
// each line; -1: unknown. Also uses the signal SIGRTMIN + 5. A later call replaces the settings.
// SystemError.
void install_stack_dump(int descriptor, int rank = -1, int signal = SIGQUIT);

// Safe in any thread and signal handler. Names threads that do not answer within 0.2 s; asks no
// more threads after 5 s; drops output that a full pipe does not take within 0.2 s. False if
// nothing is installed or another dump is running.
bool dump_stacks() noexcept;

}  // namespace phalanx
