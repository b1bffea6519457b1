#include "phalanx/base/error.h"

namespace phalanx::detail {

void check_failed(const char* expression, const char* file, int line, const std::string& message) {
  throw InternalError("internal error: {} ({}) at {}:{}", message, expression, file, line);
}

}  // namespace phalanx::detail
