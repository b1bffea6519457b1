#pragma once
// `phalanx checkpoint consolidate`: whole tensors of a checkpoint whose tensors lie in parts.

#include <filesystem>

#include "phalanx/checkpoint/checkpoint_reader.h"

namespace phalanx {

// Writes the checkpoint with whole tensors to `save`/iter_NNNNNNN, and returns its path. All else
// is as it was. If it lies there with its parts, it is replaced in one step. The caller holds the
// lock of `save`, and has verified the copies of input files. In memory are at most some MiB.
std::filesystem::path consolidate(const CheckpointReader& reader,
                                  const std::filesystem::path& save);

}  // namespace phalanx
