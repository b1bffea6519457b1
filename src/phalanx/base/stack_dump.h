#pragma once
// Writes the native stacks of all threads of this process while it runs, to show where a rank
// hangs. Nothing is stopped: each thread writes its own stack from a signal handler and goes on.
// The names are those of the program's dynamic symbols, mangled (c++filt reads them):
//
//   rank 3 thread 4711 phalanx: phalanx(_ZN7phalanx9Communicator3runEv+0x1c) [0x55d0c0ffee00]

#include <csignal>

namespace phalanx {

// From now on `signal` (0: none) writes the stacks to the descriptor, and the process goes on; so
// does dump_stacks(). `rank` begins each line; -1: not known. Takes one more signal for itself,
// SIGRTMIN + 5. Called again, the last call counts. SystemError.
void install_stack_dump(int descriptor, int rank = -1, int signal = SIGQUIT);

// May be called from any thread or signal handler. Threads that do not answer within 0.2 s are
// named; after 5 s no more threads are asked; what a full pipe does not take within 0.2 s is
// dropped. False where nothing is installed or another dump is being written.
bool dump_stacks() noexcept;

}  // namespace phalanx
