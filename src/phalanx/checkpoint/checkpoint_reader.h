#pragma once
// Loads a checkpoint: any rank asks for its boxes of any global tensor. Nothing is mapped: a disk
// that fails is an IoError that names the file. Several threads may read.

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "phalanx/checkpoint/checkpoint_files.h"
#include "phalanx/checkpoint/manifest.h"
#include "phalanx/checkpoint/stored_tensors.h"
#include "phalanx/mesh/global_tensor.h"

namespace phalanx {

enum class DTypeMatch {
  kExact,    // the stored dtype is the local one
  kConvert,  // floating-point types are converted, each value to the nearest
};

// A checkpoint of which somebody found out that it cannot be read.
struct RefusedCheckpoint {
  std::filesystem::path directory;
  std::string fault;
};
// DataError with the fault where `directory` is one of them.
void check_not_refused(const std::filesystem::path& directory,
                       std::span<const RefusedCheckpoint> refused);

class CheckpointReader {
 public:
  // Opens the checkpoint `directory`/iter_NNNNNNN, or the latest one of a save directory: the one
  // with the highest (start, iteration). If that is damaged, the one before it is opened, with a
  // warning that names the fault and the replacement. Empty if nothing was saved yet: a run then
  // starts from random weights (see no_checkpoint_message). DataError if there are checkpoints and
  // none can be read; ConfigError for an unknown format version; InputMissingError for a folder of
  // Hugging Face's, which says how to import it.
  // `refused` are passed over likewise.
  static std::optional<CheckpointReader> open_if_any(
      const std::filesystem::path& directory, Verify verify = Verify::kYes,
      std::span<const RefusedCheckpoint> refused = {});
  // For commands that need a checkpoint: InputMissingError instead of empty.
  static CheckpointReader open(const std::filesystem::path& directory,
                               Verify verify = Verify::kYes);

  // Opens one checkpoint's directory. The manifest, the headers of the files and, if asked for,
  // their digests must agree: DataError names what does not.
  explicit CheckpointReader(const std::filesystem::path& directory, Verify verify = Verify::kYes);

  // Tensors that are in no file (memory_tensors.h), for lay_over(): it has no place.
  CheckpointReader(Manifest manifest, std::unique_ptr<const StoredTensors> tensors);

  // Opens one that lies elsewhere, in parts; its directory() is empty.
  explicit CheckpointReader(std::shared_ptr<const CheckpointFiles> files,
                            Verify verify = Verify::kYes);

  const std::filesystem::path& directory() const { return directory_; }
  // Whether it lies in memory that ends with the job.
  bool is_in_memory() const { return directory_.empty(); }
  // Its directory, or what stands for one: for messages.
  std::string place() const { return files_->place(); }
  // The content of one of its files.
  std::string content_of(std::string_view name) const { return files_->open(name).text(); }
  const Manifest& manifest() const { return *manifest_; }
  // False for weights only (imported models).
  bool has_optimizer() const;
  // Null if there is no such tensor.
  const Manifest::Entry* find(std::string_view name) const;

  // Fills `to` with the row-major little-endian bytes of a part of a tensor.
  void read_box(const Manifest::Entry& entry, const MatrixBox& box, std::span<std::byte> to) const;
  // The stored tensor that has the values of this one: itself, or the one it is rounded from.
  const Manifest::Entry& stored(const Manifest::Entry& entry) const;
  // For loaders that read each byte once (StoredTensors).
  std::vector<StoredUnit> units(std::span<const Manifest::Entry* const> wanted) const;
  std::unique_ptr<ChunkReader> chunk_reader() const;
  // Passes the row-major little-endian bytes of a whole tensor to `visit`, in pieces of some MiB.
  void visit(const Manifest::Entry& entry,
             const std::function<void(std::span<const std::byte>)>& visit) const;
  // The tensor that `target` asks for by name, shape and dtype. ConfigError if it is missing or has
  // another shape or dtype.
  const Manifest::Entry& entry_for(const GlobalTensor& target, DTypeMatch match) const;
  // Fills the boxes of target.local, leaving padding as it is. ConfigError as above.
  void read(const GlobalTensor& target, DTypeMatch match = DTypeMatch::kExact) const;

  // The checkpoint's copy of the input file that `flag` ("--vocab-file") named; empty if it has
  // none.
  std::optional<std::filesystem::path> copy_of(std::string_view flag) const;

  // From here on tensors of another checkpoint are found as well: weights of an overlay before
  // those of this one, weights of a base where this one has none. manifest() stays this one's.
  void lay_over(std::shared_ptr<const CheckpointReader> overlay) { overlay_ = std::move(overlay); }
  void lay_under(std::shared_ptr<const CheckpointReader> base) { base_ = std::move(base); }
  // What it was joined with; null: nothing.
  const CheckpointReader* overlay() const { return overlay_.get(); }
  const CheckpointReader* base() const { return base_.get(); }

  // Compares every byte of every file with the manifest, whatever was verified before.
  void verify_all() const;

 private:
  // Which of the joined checkpoints has the entry: 0 is this one.
  std::size_t owner_of(const Manifest::Entry& entry) const;
  const Manifest::Entry* find_own(std::string_view name) const;

  std::filesystem::path directory_;
  std::shared_ptr<const CheckpointFiles> files_;
  std::unique_ptr<const Manifest> manifest_;  // at a fixed address
  std::map<std::string, std::size_t, std::less<>> index_;
  std::unique_ptr<const StoredTensors> tensors_;
  std::shared_ptr<const CheckpointReader> overlay_, base_;
};

// A line for the log of a run that starts from random weights.
std::string no_checkpoint_message(const std::filesystem::path& directory);

}  // namespace phalanx
