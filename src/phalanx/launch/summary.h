#pragma once
// summary.json of a launched run, and the launcher's last line.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "phalanx/launch/outcome.h"

namespace phalanx::launch {

struct AttemptSummary {
  int attempt = 0;
  int exit_status = 0;
  std::optional<Culprit> culprit;
};

struct RunSummary {
  std::string run;
  int world_size = 0;
  int exit_status = 0;  // of the run; while it goes on, of the last attempt
  std::vector<AttemptSummary> attempts;
};

// {"run", "attempts", "exit", "world_size", "culprit": of the last attempt, "attempt_ends"}.
std::string summary_json(const RunSummary& summary);

// Why it could not be written; else empty: the run's end matters more.
std::string write_summary(const std::filesystem::path& path, const RunSummary& summary);

// "phalanx launch: rank 3 (host n07) was killed by SIGKILL; 3 other ranks stopped; exit 75".
// `saved`: the newest state, if there is one.
std::string last_line(const Outcome& outcome, int world_size, int exit_status,
                      const std::optional<SavedProgress>& saved);

}  // namespace phalanx::launch
