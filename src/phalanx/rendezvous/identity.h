#pragma once
// Which host and machine this process runs on.

#include <string>

namespace phalanx::rendezvous {

// Equal for two processes that can share memory and reach each other's loopback interface: the
// kernel's boot id and the network namespace.
std::string own_machine();
// Whether a process of this machine is stopped (SIGSTOP, Ctrl-Z, a debugger): it is silent, but has
// not failed. False for a process that cannot be seen.
bool is_stopped_process(int pid);

}  // namespace phalanx::rendezvous
