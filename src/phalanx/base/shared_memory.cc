#include "phalanx/base/shared_memory.h"

#include <cstdlib>

namespace phalanx {

std::filesystem::path shared_memory_folder() {
  const char* const folder = std::getenv("UCX_POSIX_DIR");
  return folder != nullptr && *folder != '\0' ? folder : "/dev/shm";
}

}  // namespace phalanx
