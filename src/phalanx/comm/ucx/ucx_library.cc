#include "phalanx/comm/ucx/ucx_library.h"

#include <dlfcn.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "phalanx/base/error.h"

namespace phalanx::ucx {
namespace {

constexpr std::string_view kLibrary = "libphalanx_ucx.so";

// UCX reads these when it is loaded; what the user has set stays.
void set_environment() {
  constexpr std::array<std::pair<const char*, const char*>, 8> kSettings = {{
      // Without, shared memory is not for those who want to hear of dead peers, and UCX takes TCP.
      {"UCX_POSIX_ERROR_HANDLING", "y"},
      // Nor would it read a peer's memory.
      {"UCX_CMA_MEMORY_INVALIDATE", "y"},
      // SIGSEGV and SIGBUS are not UCX's to handle.
      {"UCX_HANDLE_ERRORS", "none"},
      // Its hooks in memory allocation serve devices that we do not use through it.
      {"UCX_MEM_EVENTS", "n"},
      // A file system of its own state below /tmp, with a thread that watches for it.
      {"UCX_VFS_ENABLE", "n"},
      // Others watch over the ranks: an outage of the network is not yet the end of a connection.
      {"UCX_TCP_KEEPIDLE", "3600s"},
      // Files of shared memory have no name left once they are open: nothing stays behind.
      {"UCX_POSIX_USE_PROC_LINK", "y"},
      // All that goes wrong is told to us too, and we name ranks and operations: of a rank that
      // dies, UCX would say "Connection reset by remote peer" once for each message.
      {"UCX_LOG_LEVEL", "fatal"},
  }};
  for (const auto& [name, value] : kSettings) setenv(name, value, 0);
}

// Beside the program; for tests, which lie in a folder below it, one above; where it is installed.
void* open_library() {
  set_environment();
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  std::string reason;
  for (const char* folder : {".", "..", "../lib", "../lib/phalanx"}) {
    const auto path = program / folder / kLibrary;
    if (!std::filesystem::exists(path, error)) continue;
    // UCX's threads and handlers outlive whoever would close it.
    if (void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)) return library;
    reason = dlerror();
  }
  if (!reason.empty()) throw SystemError("The transport between processes: {}", reason);
  throw SystemError(
      "The transport between processes: {} is not beside the program, in {}, nor in its ../lib; "
      "install it with the program, or train with the threads of one process (--nproc)",
      kLibrary, program.string());
}

void* library() {
  static void* const opened = open_library();
  return opened;
}

}  // namespace

void open_ucx() { library(); }

std::unique_ptr<Wire> make_wire(const std::string& transports, const std::string& devices) {
  const auto make = reinterpret_cast<MakeWire>(dlsym(library(), kMakeWire));
  if (make == nullptr) throw SystemError("{}: {}", kLibrary, dlerror());
  try {
    return std::unique_ptr<Wire>(make(transports.c_str(), devices.c_str()));
  } catch (const std::runtime_error& error) {
    throw SystemError("UCX ({}{}{}): {}", transports, devices.empty() ? "" : " on ", devices,
                      error.what());
  }
}

}  // namespace phalanx::ucx
