#include "phalanx/launch/oom_killer.h"

#include "phalanx/base/control_groups.h"

namespace phalanx::launch {

std::int64_t oom_kills(const std::filesystem::path& root) {
  const auto groups = control_groups("memory", root);
  if (groups.empty()) return 0;
  // The innermost group's count is of the groups within it, too.
  const char* const file = groups[0].version == 2 ? "memory.events" : "memory.oom_control";
  return groups[0].number(file, "oom_kill").value_or(0);
}

}  // namespace phalanx::launch
