#pragma once
// Saving a checkpoint so that a crash at any moment leaves the last complete one loadable. All
// files are written and synced in a staging directory, the manifest last; one rename makes it the
// checkpoint; then the tracker follows, and only then older checkpoints go. The directory has one
// writer: who saves holds its DirectoryLock.

#include <filesystem>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "phalanx/checkpoint/input_file.h"
#include "phalanx/checkpoint/manifest.h"
#include "phalanx/checkpoint/tensor_source.h"
#include "phalanx/mesh/global_tensor.h"

namespace phalanx {

inline constexpr std::string_view kMainParamPrefix = "optimizer.main_param.";

struct SaveOptions {
  std::filesystem::path directory;  // --save; made where it is not there
  int keep_last = 3;                // of the checkpoints up to this one, itself included; 0: all
  // Kept beside the tensors: the files that an entry of manifest.input_files calls its copy.
  std::vector<InputCopy> copies = {};
  // False: as on a file system where two directories cannot change places in one step.
  bool may_exchange = true;
  // Called before each step of the save with its name: whoever throws there ends the save, and
  // fault tests stop the process.
  std::function<void(std::string_view step)> before_step = nullptr;
};

// Writes SAVE/iter_NNNNNNN of manifest.iteration, in place of one that is there, and returns its
// path. The manifest's version, files and tensors are filled in. Without optimizer tensors it is a
// weights-only checkpoint. InternalError where the source breaks its contract: optimizer tensors
// before the model's, a name twice, another number of bytes than dtype and shape ask, a copy that
// is missing or has a forbidden name. OutputError where it cannot be written; then what is there of
// it is removed and the checkpoint before stays the latest; tensors that come later may not have
// been visited. What fails after the checkpoint is in place and on disk - the tracker, removing
// older ones - is a warning.
std::filesystem::path save_checkpoint(const SaveOptions& options, Manifest manifest,
                                      TensorSource& source);
// Of tensors that are whole on this rank, in any order.
std::filesystem::path save_checkpoint(const SaveOptions& options, Manifest manifest,
                                      std::span<const GlobalTensor> tensors);

}  // namespace phalanx
