#pragma once
// UCX, in its shared object: opened once in a process.

#include <memory>
#include <string>

#include "phalanx/comm/ucx/wire.h"

namespace phalanx::ucx {

// Opens it, unless it is open. This writes to the environment, so ranks that are threads of one
// process read that only behind their own call.
void open_ucx();

// A wire over these of UCX's transports ("posix,cma", "^posix,cma") and network devices; empty:
// UCX's choice. SystemError where the library or the wire cannot be opened.
std::unique_ptr<Wire> make_wire(const std::string& transports, const std::string& devices);

}  // namespace phalanx::ucx
