#pragma once
// Where checkpoints lie, with Megatron's names: SAVE/iter_0001000/ and
// SAVE/latest_checkpointed_iteration.txt. An iteration's directory appears under its name only when
// it is complete and on disk, and does not change afterwards. The latest is found by looking: the
// tracker is a hint for people and for Megatron's tools.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/checkpoint/manifest.h"

namespace phalanx {

inline constexpr std::string_view kTrackerName = "latest_checkpointed_iteration.txt";
inline constexpr std::string_view kManifestName = "manifest.json";
inline constexpr std::string_view kModelFileName = "model.safetensors";
inline constexpr std::string_view kOptimizerFileName = "optimizer.safetensors";

// "iter_0001000".
std::string iteration_directory_name(std::int64_t iteration);
std::optional<std::int64_t> iteration_of_directory_name(std::string_view name);

// While it is written: "iter_0001000.tmp." and 16 random digits, another name with each call. One
// that is found ("iter_0001000.tmp" too, as older programs have it) is the rest of a run that was
// killed.
std::string staging_directory_name(std::int64_t iteration);
bool is_staging_directory_name(std::string_view name);

// While another takes its place, where they cannot change places in one step: "iter_0001000.old."
// and 16 random digits. Until the other is there it is the checkpoint of its iteration.
std::string aside_directory_name(std::int64_t iteration);
std::optional<std::int64_t> iteration_of_aside_name(std::string_view name);

// The manifest of one checkpoint's directory. InputMissingError where there is no such directory;
// DataError where it has no manifest, a damaged one or that of another iteration than its name
// says; ConfigError for a format version that is not known.
Manifest read_manifest_of(const std::filesystem::path& directory);

struct SavedCheckpoint {
  std::filesystem::path directory;
  std::int64_t start = 0;
  std::int64_t iteration = 0;
  std::string run_id;
};

// An entry of a save directory that has a checkpoint's name and cannot be read as one.
struct BrokenCheckpoint {
  std::filesystem::path directory;
  std::int64_t iteration = 0;  // by its name
  std::string reason;          // names file and fault
  bool newer_format = false;   // of a version that is not known: it may be the latest
};

// What a save directory holds. The manifests are read, no tensor data. Empty where there is no such
// directory.
struct SaveContents {
  std::vector<SavedCheckpoint> complete;  // ascending by (start, iteration): the last is the latest
  std::vector<BrokenCheckpoint> broken;   // ascending by iteration
  // Aside copies of checkpoints that are there under their own name: to be removed.
  std::vector<std::filesystem::path> replaced;
};
// IoError where it cannot be listed.
SaveContents save_contents(const std::filesystem::path& save);

// Those of `save` that are complete.
std::vector<SavedCheckpoint> saved_checkpoints(const std::filesystem::path& save);

// Where the checkpoint of that iteration is or would be: SAVE/iter_NNNNNNN, or the copy of it that
// is set aside while that is not there.
std::filesystem::path directory_of_iteration(const std::filesystem::path& save,
                                             std::int64_t iteration);

// What a run that goes on from that checkpoint leaves behind: whatever comes after it; what cannot
// be read, or has no manifest, and whose iteration is larger; copies of these that an interrupted
// replacement left.
std::vector<std::filesystem::path> checkpoints_after(const std::filesystem::path& save,
                                                     std::int64_t start, std::int64_t iteration);

// "abandoned-N".
bool is_abandoned_name(std::string_view name);
// The one with the smallest N from 1 that nothing in `save` has.
std::string free_abandoned_name(const std::filesystem::path& save);
// SAVE/NAME, made durably where it is not there. OutputError where it cannot be.
std::filesystem::path make_abandoned_directory(const std::filesystem::path& save,
                                               std::string_view name);
// Renames `paths` into `abandoned`, the last first, and syncs both directories. OutputError.
void move_into(const std::filesystem::path& abandoned,
               std::span<const std::filesystem::path> paths);

// The checkpoint that `path` is or lies in, by its name or where its links lead: a complete one, or
// one that is being written or replaced, as long as that is there. Saves remove it with all it
// holds.
std::optional<std::filesystem::path> checkpoint_around(const std::filesystem::path& path);

// What the tracker says; empty where there is none. DataError where it is not an iteration number.
std::optional<std::int64_t> read_tracker(const std::filesystem::path& save);
void write_tracker(const std::filesystem::path& save, std::int64_t iteration);

}  // namespace phalanx
