#pragma once
// Where checkpoints lie, with Megatron's names: SAVE/iter_0001000/ and
// SAVE/latest_checkpointed_iteration.txt. An iteration's directory appears under its name only when
// it is complete and on disk, and does not change afterwards. The latest checkpoint is found by
// listing the directory; the tracker file is only a hint for people and for Megatron's tools.

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

// The name of a checkpoint while it is written: "iter_0001000.tmp." and 16 random digits, new with
// each call. A directory of such a name (or "iter_0001000.tmp", from older versions) without a
// writer was left by a killed run.
std::string staging_directory_name(std::int64_t iteration);
bool is_staging_directory_name(std::string_view name);

// The name of a checkpoint while another replaces it, on file systems that cannot exchange two
// directories in one step: "iter_0001000.old." and 16 random digits. Until the new one is there, it
// is the checkpoint of its iteration.
std::string aside_directory_name(std::int64_t iteration);
std::optional<std::int64_t> iteration_of_aside_name(std::string_view name);

// The manifest of one checkpoint's directory. InputMissingError if there is no such directory;
// DataError if it has no manifest, a damaged one, or one of another iteration than its name says;
// ConfigError for an unknown format version.
Manifest read_manifest_of(const std::filesystem::path& directory);

struct SavedCheckpoint {
  std::filesystem::path directory;
  std::int64_t start = 0;
  std::int64_t iteration = 0;
  std::string run_id;
};

// An entry of a save directory that is named as a checkpoint and cannot be read.
struct BrokenCheckpoint {
  std::filesystem::path directory;
  std::int64_t iteration = 0;  // the iteration that its name says
  std::string reason;          // names file and fault
  bool newer_format = false;   // it has an unknown format version: it may be the latest
};

// What a save directory holds, from the manifests; no tensor data is read. Empty if there is no
// such directory.
struct SaveContents {
  std::vector<SavedCheckpoint> complete;  // ascending by (start, iteration): the last is the latest
  std::vector<BrokenCheckpoint> broken;   // ascending by iteration
  // Copies that were set aside and whose checkpoint is there under its own name: to be removed.
  std::vector<std::filesystem::path> replaced;
};
// IoError if it cannot be listed.
SaveContents save_contents(const std::filesystem::path& save);

// The complete checkpoints of `save`.
std::vector<SavedCheckpoint> saved_checkpoints(const std::filesystem::path& save);

// The path of the checkpoint of an iteration: SAVE/iter_NNNNNNN, or the copy that was set aside if
// that is missing.
std::filesystem::path directory_of_iteration(const std::filesystem::path& save,
                                             std::int64_t iteration);

// What a run that continues from that checkpoint abandons: all later checkpoints; directories of
// later iterations that cannot be read or have no manifest; copies of these that an interrupted
// replacement left.
std::vector<std::filesystem::path> checkpoints_after(const std::filesystem::path& save,
                                                     std::int64_t start, std::int64_t iteration);

// "abandoned-N".
bool is_abandoned_name(std::string_view name);
// The free name with the smallest N, from 1.
std::string free_abandoned_name(const std::filesystem::path& save);
// SAVE/NAME; if it is not there, it is made durably. OutputError if that fails.
std::filesystem::path make_abandoned_directory(const std::filesystem::path& save,
                                               std::string_view name);
// Moves `paths` into `abandoned`, the last one first, and syncs both directories. OutputError if
// that fails.
void move_into(const std::filesystem::path& abandoned,
               std::span<const std::filesystem::path> paths);

// The checkpoint that `path` is or lies in, by its name or by the target of its links: a complete
// one, or one that is being written or replaced. Saves may remove it with all its contents.
std::optional<std::filesystem::path> checkpoint_around(const std::filesystem::path& path);

// The iteration in the tracker file; empty if there is no file. DataError if it is not a number.
std::optional<std::int64_t> read_tracker(const std::filesystem::path& save);
void write_tracker(const std::filesystem::path& save, std::int64_t iteration);

}  // namespace phalanx
