#pragma once
// Opens the shared object with UCX, once in a process.

#include <memory>
#include <string>

#include "phalanx/comm/ucx/wire.h"

namespace phalanx::ucx {

// Opens it unless it is open. This sets environment variables, so ranks that are threads of one
// process may read the environment only after their own call.
void open_ucx();

// A wire over some of UCX's transports ("posix,cma", "^posix,cma") and network devices; empty:
// UCX's choice. SystemError if the library or the wire cannot be opened.
std::unique_ptr<Wire> make_wire(const std::string& transports, const std::string& devices);

}  // namespace phalanx::ucx
