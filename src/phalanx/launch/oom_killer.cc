#include "phalanx/launch/oom_killer.h"

#include "phalanx/base/control_groups.h"

namespace phalanx::launch {

std::int64_t oom_kills(const std::filesystem::path& root) {
  const auto groups = control_groups("memory", root);
  if (!groups.empty()) {
    // With version 2 the innermost group's count is of the groups within it, too.
    const char* const file = groups[0].version == 2 ? "memory.events" : "memory.oom_control";
    if (const auto kills = groups[0].number(file, "oom_kill")) return *kills;
  }
  const ControlGroup machine{.name = "/", .directory = root / "proc"};
  return machine.number("vmstat", "oom_kill").value_or(0);
}

}  // namespace phalanx::launch
