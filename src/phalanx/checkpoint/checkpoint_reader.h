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

#include "phalanx/checkpoint/manifest.h"
#include "phalanx/checkpoint/safetensors.h"
#include "phalanx/mesh/global_tensor.h"

namespace phalanx {

// Which files are compared with the manifest's digests, each in one pass when it is opened.
enum class Verify {
  kNo,       // none
  kWeights,  // the weights and the copies of input files; the optimizer's file is not opened at all
  kYes,      // all
};
enum class DTypeMatch {
  kExact,    // the stored dtype is the local one
  kConvert,  // floating-point types convert, each value to the nearest
};

class CheckpointReader {
 public:
  // `directory` is a save directory, whose latest checkpoint is meant, or one iter_NNNNNNN. The
  // latest is the one with the highest (start, iteration); where it is damaged the one before is
  // taken, with a warning that names the fault and what is taken instead. Empty where nothing was
  // saved there yet: a run starts from random (see no_checkpoint_message). DataError where there is
  // a checkpoint and none that can be read; ConfigError for a format version that is not known;
  // InputMissingError where it is a folder of Hugging Face's, which says how to import it.
  static std::optional<CheckpointReader> open_if_any(const std::filesystem::path& directory,
                                                     Verify verify = Verify::kYes);
  // For commands that need one: InputMissingError instead of empty.
  static CheckpointReader open(const std::filesystem::path& directory,
                               Verify verify = Verify::kYes);

  // One checkpoint's directory. The manifest, the headers of the files and, where they are
  // verified, their digests must agree: DataError names what does not.
  explicit CheckpointReader(const std::filesystem::path& directory, Verify verify = Verify::kYes);

  const std::filesystem::path& directory() const { return directory_; }
  const Manifest& manifest() const { return manifest_; }
  // False for weights only (imported models).
  bool has_optimizer() const;
  // Null where there is none.
  const Manifest::Entry* find(std::string_view name) const;

  // The row-major little-endian bytes of a whole tensor, not aligned to its elements.
  std::span<const std::byte> bytes(const Manifest::Entry& entry) const;

  // Fills the boxes of target.local, leaving padding as it is. ConfigError where the tensor is
  // missing or has another shape or dtype than the model asks for.
  void read(const GlobalTensor& target, DTypeMatch match = DTypeMatch::kExact) const;

  // Where this checkpoint keeps the input file that `flag` ("--vocab-file") named; empty where it
  // has no copy of it.
  std::optional<std::filesystem::path> copy_of(std::string_view flag) const;

  // Every byte of every file against the manifest, whatever was verified before.
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

// One line for the log of a run that starts from random.
std::string no_checkpoint_message(const std::filesystem::path& directory);

}  // namespace phalanx
