#pragma once
// The folder in which ranks of one host share memory.

#include <filesystem>
#include <string>

namespace phalanx::ucx {

// How much of it a rank uses during a run, in KiB, as measured with UCX's defaults.
inline constexpr int kSharedKibOfRank = 4208;

// UCX_POSIX_DIR, or /dev/shm.
std::filesystem::path shared_memory_folder();

// The problem with the folder for that many ranks of this host, and what to do; empty if there is
// none that can be seen.
std::string shared_memory_fault(const std::filesystem::path& folder, int ranks);

}  // namespace phalanx::ucx
