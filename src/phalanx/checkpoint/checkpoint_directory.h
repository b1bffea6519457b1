#pragma once
// Where checkpoints lie, with Megatron's names: SAVE/iter_0001000/ and
// SAVE/latest_checkpointed_iteration.txt. An iteration's directory appears under its name only when
// it is complete and on disk, and does not change afterwards.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace phalanx {

inline constexpr std::string_view kTrackerName = "latest_checkpointed_iteration.txt";
inline constexpr std::string_view kManifestName = "manifest.json";
inline constexpr std::string_view kModelFileName = "model.safetensors";
inline constexpr std::string_view kOptimizerFileName = "optimizer.safetensors";

// "iter_0001000".
std::string iteration_directory_name(std::int64_t iteration);
std::optional<std::int64_t> iteration_of_directory_name(std::string_view name);

// While it is written: "iter_0001000.tmp". One that is found is the rest of a run that was killed.
std::string staging_directory_name(std::int64_t iteration);
bool is_staging_directory_name(std::string_view name);

// The iterations that have a directory with a manifest in `save`, ascending; empty where there is
// no such directory.
std::vector<std::int64_t> saved_iterations(const std::filesystem::path& save);

// What the tracker says; empty where there is none. DataError where it is not an iteration number.
std::optional<std::int64_t> read_tracker(const std::filesystem::path& save);

}  // namespace phalanx
