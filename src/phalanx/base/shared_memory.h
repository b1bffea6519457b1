#pragma once
// The folder in which processes of one host share memory.

#include <filesystem>

namespace phalanx {

// UCX_POSIX_DIR, or /dev/shm.
std::filesystem::path shared_memory_folder();

}  // namespace phalanx
