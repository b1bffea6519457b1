#pragma once
// A checkpoint of adapters has only what its run trained, and names the checkpoint that has all
// other weights: its base. Whoever wants the model opens both.

#include <cstdint>
#include <filesystem>

#include "phalanx/checkpoint/checkpoint_reader.h"

namespace phalanx {

// Of the names, types, shapes and bytes of a checkpoint's own weights, whatever files they are in.
// Weights in parts are read for it. DataError, IoError where they cannot be.
std::uint64_t digest_of_weights(const CheckpointReader& reader);
// Of the text of its manifest.
std::uint64_t digest_of_manifest_text(const CheckpointReader& reader);

// What a checkpoint of adapters says of the base. ConfigError if that has a base itself.
Manifest::Base describe_base(const CheckpointReader& base);

// The directory of the base: `elsewhere` if it is given, else where the manifest says.
std::filesystem::path base_directory(const CheckpointReader& reader,
                                     const std::filesystem::path& elsewhere = {});

// Joins a checkpoint of adapters with its base, so that all weights are found; nothing if it has no
// base. `elsewhere`: where the base is now (--lora-base), a save directory or one iteration's; "":
// where it was. InputMissingError if it is not there; ConfigError with both digests if it has other
// weights, unless `verifies` is false: another process has compared them.
void join_base(CheckpointReader& reader, const std::filesystem::path& elsewhere, Verify verify,
               bool verifies = true);

// A checkpoint, joined with its base if it has one. The errors of CheckpointReader::open() and
// join_base().
CheckpointReader open_with_base(const std::filesystem::path& directory, Verify verify,
                                const std::filesystem::path& elsewhere = {});

}  // namespace phalanx
