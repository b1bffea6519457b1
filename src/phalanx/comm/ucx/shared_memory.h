#pragma once
// Whether the folder in which ranks of one host share memory suffices.

#include <filesystem>
#include <string>

namespace phalanx::ucx {

// How much of it a rank uses during a run, in KiB, as measured with UCX's defaults.
inline constexpr int kSharedKibOfRank = 4208;

// The problem with the folder for that many ranks of this host, and what to do; empty if there is
// none that can be seen.
std::string shared_memory_fault(const std::filesystem::path& folder, int ranks);

}  // namespace phalanx::ucx
