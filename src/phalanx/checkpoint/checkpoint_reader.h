#pragma once
// Loads a checkpoint: any rank asks for its boxes of any global tensor.

#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/checkpoint/manifest.h"
#include "phalanx/checkpoint/safetensors.h"
#include "phalanx/mesh/global_tensor.h"

namespace phalanx {

// Which files are compared with the manifest's digests. Each is read once for that, when it is
// opened.
enum class Verify {
  kNo,       // none
  kWeights,  // weights and copies of input files; the optimizer's file is not opened
  kYes,      // all
};
enum class DTypeMatch {
  kExact,    // the stored dtype is the local one
  kConvert,  // floating-point types are converted, each value to the nearest
};

class CheckpointReader {
 public:
  // Opens the checkpoint `directory`/iter_NNNNNNN, or the latest one of a save directory: the one
  // with the highest (start, iteration). If that is damaged, the one before it is opened, with a
  // warning that names the fault and the replacement. Empty if nothing was saved yet: a run then
  // starts from random weights (see no_checkpoint_message). DataError if there are checkpoints and
  // none can be read; ConfigError for an unknown format version; InputMissingError for a folder of
  // Hugging Face's, which says how to import it.
  static std::optional<CheckpointReader> open_if_any(const std::filesystem::path& directory,
                                                     Verify verify = Verify::kYes);
  // For commands that need a checkpoint: InputMissingError instead of empty.
  static CheckpointReader open(const std::filesystem::path& directory,
                               Verify verify = Verify::kYes);

  // Opens one checkpoint's directory. The manifest, the headers of the files and, if asked for,
  // their digests must agree: DataError names what does not.
  explicit CheckpointReader(const std::filesystem::path& directory, Verify verify = Verify::kYes);

  const std::filesystem::path& directory() const { return directory_; }
  const Manifest& manifest() const { return manifest_; }
  // False for weights only (imported models).
  bool has_optimizer() const;
  // Null if there is no such tensor.
  const Manifest::Entry* find(std::string_view name) const;

  // The row-major little-endian bytes of a whole tensor, not aligned to its elements.
  std::span<const std::byte> bytes(const Manifest::Entry& entry) const;

  // Fills the boxes of target.local, leaving padding as it is. ConfigError if the tensor is missing
  // or has another shape or dtype than the model asks for.
  void read(const GlobalTensor& target, DTypeMatch match = DTypeMatch::kExact) const;

  // The checkpoint's copy of the input file that `flag` ("--vocab-file") named; empty if it has
  // none.
  std::optional<std::filesystem::path> copy_of(std::string_view flag) const;

  // Compares every byte of every file with the manifest, whatever was verified before.
  void verify_all() const;

 private:
  bool wants(std::string_view file_name) const;
  void open_file(const Manifest::File& file);
  void check_entry(const Manifest::Entry& entry) const;
  void compare_digest(const Manifest::File& file) const;
  void compare_digest(const Manifest::Entry& entry) const;
  const SafetensorsFile& opened(std::string_view file_name) const;

  std::filesystem::path directory_;
  Verify verify_;
  Manifest manifest_;
  std::map<std::string, SafetensorsFile, std::less<>> files_;
  std::map<std::string, std::size_t, std::less<>> index_;
};

// A line for the log of a run that starts from random weights.
std::string no_checkpoint_message(const std::filesystem::path& directory);

}  // namespace phalanx
