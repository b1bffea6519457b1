#pragma once
// How many processes the kernel's OOM-killer has killed in this process's control group, or on the
// whole machine if the group does not count them.

#include <cstdint>
#include <filesystem>

namespace phalanx::launch {

// 0 if it cannot be read. `root` as in control_groups().
std::int64_t oom_kills(const std::filesystem::path& root = "/");

}  // namespace phalanx::launch
