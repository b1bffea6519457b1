#pragma once
// UCX, in its shared object: opened when the first wire is made, once in a process.

#include <memory>
#include <string>

#include "phalanx/comm/ucx/wire.h"

namespace phalanx::ucx {

// A wire over these of UCX's transports ("posix,cma", "^posix,cma") and network devices; empty:
// UCX's choice. SystemError where the library or the wire cannot be
// opened.
std::unique_ptr<Wire> make_wire(const std::string& transports, const std::string& devices);

}  // namespace phalanx::ucx
