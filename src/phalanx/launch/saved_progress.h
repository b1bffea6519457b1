#pragma once
// What a launcher reads from the command of its ranks, and how far a run has come by its
// checkpoints.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "phalanx/checkpoint/memory_files.h"

namespace phalanx::launch {

// Where the command saves: --save DIR or --save=DIR, the last one; else `save:` of its --yaml-cfg.
// Empty if it does not save, or the file cannot be read (the command itself reports that).
std::filesystem::path save_directory_of(const std::vector<std::string>& command);

// The command's --silence-timeout-s, which also holds for launchers; empty if it has none, or no
// number.
std::optional<double> silence_timeout_of(const std::vector<std::string>& command);

// The newest complete checkpoint.
struct SavedProgress {
  std::int64_t start = 0;  // the number of the run's start, which rises with each start
  std::int64_t iteration = 0;
  friend bool operator==(const SavedProgress&, const SavedProgress&) = default;
};

// Whether the command may take snapshots in memory (--memory-snapshot-interval).
bool takes_snapshots(const std::vector<std::string>& command);

// The newest checkpoint, or the newest snapshot in memory.
std::optional<SavedProgress> newest_state(const std::filesystem::path& save,
                                          const MemoryFiles& memory);

// From the manifests in SAVE/iter_*/, as a run that resumes finds it. Empty if there is none; also,
// with a warning, if the directory cannot be listed.
std::optional<SavedProgress> newest_checkpoint(const std::filesystem::path& save);

// Whether the run has come further. A restart that has come to the same iteration has not, though
// its checkpoint is another one.
bool is_progress(const std::optional<SavedProgress>& before,
                 const std::optional<SavedProgress>& now);

}  // namespace phalanx::launch
