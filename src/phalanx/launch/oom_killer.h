#pragma once
// How often the kernel's OOM-killer has struck in this process's control group; on the whole
// machine where the group does not count.

#include <cstdint>
#include <filesystem>

namespace phalanx::launch {

// 0 where it cannot be read. `root` as for control_groups().
std::int64_t oom_kills(const std::filesystem::path& root = "/");

}  // namespace phalanx::launch
