#include "phalanx/comm/ucx/ucx_library.h"

#include <array>
#include <cstdlib>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/shared_object.h"

namespace phalanx::ucx {
namespace {

constexpr std::string_view kLibrary = "libphalanx_ucx.so";

// UCX reads these when it is loaded. Values that the user has set are kept.
void set_environment() {
  constexpr std::array<std::pair<const char*, const char*>, 8> kSettings = {{
      // Without it UCX uses no shared memory if dead peers are to be reported, but TCP.
      {"UCX_POSIX_ERROR_HANDLING", "y"},
      // The same for reading a peer's memory.
      {"UCX_CMA_MEMORY_INVALIDATE", "y"},
      // UCX must not handle SIGSEGV and SIGBUS.
      {"UCX_HANDLE_ERRORS", "none"},
      // Its hooks in memory allocation are for devices that we do not use through UCX.
      {"UCX_MEM_EVENTS", "n"},
      // A file system of its own state below /tmp, with a thread that watches for it.
      {"UCX_VFS_ENABLE", "n"},
      // The rendezvous watches over the ranks: an outage of the network must not end a connection.
      {"UCX_TCP_KEEPIDLE", "3600s"},
      // Files of shared memory are unlinked once they are open, so that none stays behind.
      {"UCX_POSIX_USE_PROC_LINK", "y"},
      // UCX returns all errors to us too, and our messages name ranks and operations. UCX would
      // print "Connection reset by remote peer" for every message of a rank that dies.
      {"UCX_LOG_LEVEL", "fatal"},
  }};
  for (const auto& [name, value] : kSettings) setenv(name, value, 0);
}

void* open_library() {
  set_environment();
  return open_shared_object(kLibrary, "The transport between processes",
                            "build target phalanx_ucx or install it with the program, or train "
                            "with the threads of one process (--nproc)");
}

void* library() {
  static void* const opened = open_library();
  return opened;
}

}  // namespace

void open_ucx() { library(); }

std::unique_ptr<Wire> make_wire(const std::string& transports, const std::string& devices) {
  const auto make = reinterpret_cast<MakeWire>(function_of(library(), kLibrary, kMakeWire));
  try {
    return std::unique_ptr<Wire>(make(transports.c_str(), devices.c_str()));
  } catch (const std::runtime_error& error) {
    throw SystemError("UCX ({}{}{}): {}", transports, devices.empty() ? "" : " on ", devices,
                      error.what());
  }
}

}  // namespace phalanx::ucx
