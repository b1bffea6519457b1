#pragma once
// What a launcher reads in the command of its ranks, and how far a run has come, as its checkpoints
// tell.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace phalanx::launch {

// Where the command saves: --save DIR or --save=DIR, the last one; else save: of its --yaml-cfg.
// Empty where it does not, or the file cannot be read (the command itself will say so).
std::filesystem::path save_directory_of(const std::vector<std::string>& command);

// --silence-timeout-s of the command itself, for launchers hear of each other as ranks do; empty
// where it does not say so, or says no number.
std::optional<double> silence_timeout_of(const std::vector<std::string>& command);

// The newest checkpoint that is whole.
struct SavedProgress {
  std::int64_t start = 0;  // of the run, which rises with each of its starts
  std::int64_t iteration = 0;
  friend bool operator==(const SavedProgress&, const SavedProgress&) = default;
};

// By the manifests in SAVE/iter_*/, as a run that goes on finds it; empty where there is none, or
// the directory cannot be listed, which is a warning.
std::optional<SavedProgress> newest_checkpoint(const std::filesystem::path& save);

// Whether the run has come further than it had. One that was started again and came to the same
// iteration has not, though its checkpoint is another.
bool is_progress(const std::optional<SavedProgress>& before,
                 const std::optional<SavedProgress>& now);

}  // namespace phalanx::launch
