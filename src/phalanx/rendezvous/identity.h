#pragma once
// What this process says of where it runs.

#include <string>

namespace phalanx::rendezvous {

std::string own_host_name();
// Equal for two processes that can share memory and reach each other's loopback interface: the
// kernel's boot id and the network namespace.
std::string own_machine();
// Whether a process of this machine was stopped (SIGSTOP, Ctrl-Z, a debugger): it says nothing, and
// is well. False where it is not to be seen.
bool is_stopped_process(int pid);

}  // namespace phalanx::rendezvous
