#pragma once
// Loading a checkpoint: any rank asks for its boxes of any global tensor.

#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/checkpoint/global_tensor.h"
#include "phalanx/checkpoint/manifest.h"
#include "phalanx/checkpoint/safetensors.h"

namespace phalanx {

enum class Verify { kNo, kYes };
enum class DTypeMatch {
  kExact,    // the stored dtype is the local one
  kConvert,  // floating-point types convert, each value to the nearest
};

class CheckpointReader {
 public:
  // `directory` is a save directory, whose latest checkpoint is meant, or one iter_NNNNNNN. Empty
  // where it has no tracker: nothing was saved there yet, a run starts from random (see
  // missing_tracker_message). Where the tracker is damaged or names a checkpoint that cannot be
  // opened, the newest one before it that can be is taken, with a warning. DataError where there is
  // none; ConfigError for a format version that is not known.
  static std::optional<CheckpointReader> open_if_any(const std::filesystem::path& directory,
                                                     Verify verify = Verify::kYes);
  // For commands that need one: InputMissingError instead of empty.
  static CheckpointReader open(const std::filesystem::path& directory,
                               Verify verify = Verify::kYes);

  // One iteration's directory. The manifest and the headers of the files must agree.
  explicit CheckpointReader(const std::filesystem::path& directory, Verify verify = Verify::kYes);

  const std::filesystem::path& directory() const { return directory_; }
  const Manifest& manifest() const { return manifest_; }
  // False for weights only (imported models).
  bool has_optimizer() const { return files_.size() > 1; }
  // Null where there is none.
  const Manifest::Entry* find(std::string_view name) const;

  // The row-major little-endian bytes of a whole tensor, not aligned to its elements. Unless
  // verification is off, DataError names file and tensor where their digest is not the manifest's.
  std::span<const std::byte> bytes(const Manifest::Entry& entry) const;

  // Fills the boxes of target.local, leaving padding as it is. ConfigError where the tensor is
  // missing or has another shape or dtype than the model asks for.
  void read(const GlobalTensor& target, DTypeMatch match = DTypeMatch::kExact) const;

  // Every byte of every file against the manifest.
  void verify_all() const;

 private:
  void open_file(const Manifest::File& file);
  void check_entry(const Manifest::Entry& entry) const;

  std::filesystem::path directory_;
  Verify verify_;
  Manifest manifest_;
  std::map<std::string, SafetensorsFile, std::less<>> files_;
  std::map<std::string, std::size_t, std::less<>> index_;
};

// One line for the log of a run that starts from random.
std::string missing_tracker_message(const std::filesystem::path& directory);

}  // namespace phalanx
