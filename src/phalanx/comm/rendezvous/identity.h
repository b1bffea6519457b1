#pragma once
// What this process says of where it runs.

#include <string>

namespace phalanx::rendezvous {

std::string own_host_name();
// Equal for two processes that can share memory and reach each other's loopback interface: the
// kernel's boot id and the network namespace.
std::string own_machine();

}  // namespace phalanx::rendezvous
