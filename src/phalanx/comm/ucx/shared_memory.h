#pragma once
// The folder in which ranks of one host share memory.

#include <filesystem>
#include <string>

namespace phalanx::ucx {

// What a rank takes of it, in KiB, for as long as the run: as measured with UCX's own settings.
inline constexpr int kSharedKibOfRank = 4208;

// UCX_POSIX_DIR, or /dev/shm.
std::filesystem::path shared_memory_folder();

// What is wrong with it for that many ranks of this host, and what to do; empty: nothing that can
// be seen.
std::string shared_memory_fault(const std::filesystem::path& folder, int ranks);

}  // namespace phalanx::ucx
