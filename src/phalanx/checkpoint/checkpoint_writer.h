#pragma once
// Saving a checkpoint so that a crash at any moment leaves the last complete one loadable. All
// files are written and synced in a staging directory, the manifest last; one rename makes it the
// checkpoint; then the tracker follows, and only then older checkpoints go.

#include <filesystem>
#include <functional>
#include <span>
#include <string_view>

#include "phalanx/checkpoint/global_tensor.h"
#include "phalanx/checkpoint/manifest.h"

namespace phalanx {

// Tensors whose names start so go to optimizer.safetensors, the others to model.safetensors.
inline constexpr std::string_view kOptimizerPrefix = "optimizer.";
inline constexpr std::string_view kExpAvgPrefix = "optimizer.exp_avg.";
inline constexpr std::string_view kExpAvgSqPrefix = "optimizer.exp_avg_sq.";
inline constexpr std::string_view kMainParamPrefix = "optimizer.main_param.";

struct SaveOptions {
  std::filesystem::path directory;  // --save; made where it is not there
  int keep_last = 3;  // of the checkpoints up to this iteration, itself included; 0: all
  // Called before each step of the save with its name: fault tests stop the process here.
  std::function<void(std::string_view step)> before_step = nullptr;
};

// Writes SAVE/iter_NNNNNNN of manifest.iteration, in place of one that is there, and returns its
// path. The manifest's version, files and tensors are filled in. Without optimizer tensors it is a
// weights-only checkpoint. The tensors must cover their global tensors (InternalError). OutputError
// where it cannot be written; then what is there of it is removed and the checkpoint before stays
// the latest.
std::filesystem::path save_checkpoint(const SaveOptions& options, Manifest manifest,
                                      std::span<const GlobalTensor> tensors);

}  // namespace phalanx
