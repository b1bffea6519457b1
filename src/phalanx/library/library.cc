// The version, and where messages go.

#include <string>
#include <string_view>

#include "phalanx/base/log_receiver.h"
#include "phalanx/library/phalanx.h"

namespace phalanx {
namespace {

int level_of(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
    case LogLevel::kInfo:
      return 0;
    case LogLevel::kWarning:
      return 1;
    case LogLevel::kError:
      break;
  }
  return 2;
}

}  // namespace
}  // namespace phalanx

extern "C" {

int phalanx_interface_version(void) { return PHALANX_INTERFACE_VERSION; }

const char* phalanx_version(void) { return PHALANX_VERSION; }

void phalanx_set_log(phalanx_log_function log, void* data) {
  if (log == nullptr) return phalanx::set_log_receiver(nullptr);
  phalanx::set_log_receiver([log, data](phalanx::LogLevel level, std::string_view line) {
    log(phalanx::level_of(level), std::string(line).c_str(), data);
  });
}

}  // extern "C"
