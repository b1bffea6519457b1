#pragma once
// Saves a checkpoint so that a crash at any moment leaves the last complete one loadable. All files
// are written and synced in a staging directory, the manifest last; one rename makes it the
// checkpoint; then the tracker is written, and only then older checkpoints are removed. The
// directory has one writer, which holds its DirectoryLock.

#include <filesystem>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "phalanx/checkpoint/input_file.h"
#include "phalanx/checkpoint/manifest.h"
#include "phalanx/checkpoint/retention.h"
#include "phalanx/checkpoint/tensor_source.h"
#include "phalanx/mesh/global_tensor.h"

namespace phalanx {

inline constexpr std::string_view kMainParamPrefix = "optimizer.main_param.";

// The step in which older checkpoints are removed: from here on the new one is in its place and on
// disk.
inline constexpr std::string_view kPruneStep = "prune";

struct SaveOptions {
  std::filesystem::path directory;  // --save; made if it is not there
  Retention retention = {};         // of the checkpoints up to this one
  // Files that are kept with the tensors: the copies that entries of manifest.input_files name.
  std::vector<InputCopy> copies = {};
  // False: as on a file system that cannot exchange two directories in one step.
  bool may_exchange = true;
  // Whether the directory at the path is still the writer's; asked before anything is removed.
  // Null: it is.
  std::function<bool()> holds_directory = nullptr;
  // Called with the name of each step of the save before it begins. An exception ends the save.
  std::function<void(std::string_view step)> before_step = nullptr;
};

// What a save writes beside the copies and the manifest.
class CheckpointContent {
 public:
  CheckpointContent() = default;
  CheckpointContent(const CheckpointContent&) = delete;
  CheckpointContent& operator=(const CheckpointContent&) = delete;
  virtual ~CheckpointContent() = default;

  // How much space it needs.
  virtual std::int64_t bytes() const = 0;
  // Writes its files into `directory`, durably, and their entries into the manifest. `step` is to
  // be called before each step.
  virtual void write(const std::filesystem::path& directory, Manifest& manifest,
                     const std::function<void(std::string_view step)>& step) = 0;
};

// Writes SAVE/iter_NNNNNNN of manifest.iteration, replacing one that is there, and returns its
// path. The manifest's version, files, tensors and parts are filled in. Without optimizer tensors
// it is a weights-only checkpoint. InternalError if the source breaks its contract: optimizer
// tensors before the model's, a name twice, another number of bytes than dtype and shape ask, a
// copy that is missing or has a forbidden name. OutputError if it cannot be written: then the
// unfinished checkpoint is removed, the one before stays the latest, and later tensors may not have
// been visited. What fails once the checkpoint is in place and on disk (the tracker, removing older
// ones) is a warning.
std::filesystem::path save_checkpoint(const SaveOptions& options, Manifest manifest,
                                      CheckpointContent& content);
// Whole tensors in safetensors files.
std::filesystem::path save_checkpoint(const SaveOptions& options, Manifest manifest,
                                      TensorSource& source);
// The same for tensors that are whole on this rank, in any order.
std::filesystem::path save_checkpoint(const SaveOptions& options, Manifest manifest,
                                      std::span<const GlobalTensor> tensors);

}  // namespace phalanx
