#pragma once
// What killed ranks leave in the folder of shared memory.

#include <filesystem>
#include <vector>

namespace phalanx::launch {

// UCX makes a file for memory that ranks share, fills it, and removes its name some milliseconds
// later; a rank that is killed in between leaves the file, of some 4 MiB. Removes such files, and
// returns their paths: files with UCX's name, of this user, that were written after `since` and
// that no process has open or mapped. Removes nothing if a process of this user cannot be asked.
std::vector<std::filesystem::path> remove_left_memory(const std::filesystem::path& folder,
                                                      std::filesystem::file_time_type since);

}  // namespace phalanx::launch
