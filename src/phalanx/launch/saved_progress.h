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

// What latest_checkpointed_iteration.txt says; empty where there is none, or no number.
std::optional<std::int64_t> newest_iteration(const std::filesystem::path& save);

}  // namespace phalanx::launch
