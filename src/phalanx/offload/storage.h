#pragma once
// Files on a fast disk that hold the states of a training run that do not fit in memory: optimizer
// states, parameters, activations. A rank writes them and reads them back many times a step while
// it computes. It works as comm/ does: a call is enqueued and returns a Work, its tensor belongs to
// the storage until the Work has been waited for, and a planning implementation moves nothing and
// records the same.
//
// A storage belongs to one rank, and one thread at a time uses it. Its files live in a
// StorageFolder (storage_folder.h), and only as long as the run: nothing is synced or kept.
//
// - Calls access a range of a file in their order: a read sees earlier writes, and a write waits
// for
//   earlier reads.
// - Every block's checksum is kept in memory and compared when it is read: ChangedFileError names
//   file and offset. Other failures are IoError. The first failure ends the storage: the waits of
//   transfers that it stopped throw it, and so does every later call.
// - A Work may be dropped. When a file is destroyed, it waits for its transfers under way, and
// drops
//   those that have not begun; so tensors must outlive files.
// - Tensors are contiguous and in host memory. Those that begin at a multiple of 4,096 bytes
//   (allocate_staging) move without a copy; others go through buffers of the storage.
//
// The storage's memory comes from an arena: buffers when it is made, checksums with each file.
// Nothing grows later.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/comm/work.h"
#include "phalanx/disk/storage_options.h"
#include "phalanx/offload/file_layout.h"
#include "phalanx/ops/backend.h"

namespace phalanx {

class StorageFolder;

// A file does not hold what was written to it. It is no input of the run: a restart from the last
// checkpoint writes it anew.
using ChangedFileError = ErrorOf<ErrorCode::kTemporary>;

// One file. Its size is fixed, and reserved on the disk when it is made.
class StateFile {
 public:
  virtual ~StateFile() = default;
  StateFile(const StateFile&) = delete;
  StateFile& operator=(const StateFile&) = delete;

  const std::string& name() const { return name_; }
  const FileLayout& layout() const { return layout_; }

  // `offset` is that of a record or of a block in it; the tensor is as long as the record or whole
  // blocks of it. A range must be written before it is read.
  Work write(Context& context, std::int64_t offset, const Tensor& tensor);
  Work read(Context& context, std::int64_t offset, const Tensor& tensor);
  // For memory that is not a tensor's; not recorded.
  Work write(std::int64_t offset, std::span<const std::byte> memory);
  Work read(std::int64_t offset, std::span<std::byte> memory);

  // For measurements, with no transfer under way: puts everything written on the disk, and drops it
  // from the page cache.
  virtual void settle() = 0;

 protected:
  StateFile(std::string name, FileLayout layout);

  struct Range {
    std::int64_t offset = 0;
    std::int64_t bytes = 0;
    std::int64_t first_block = 0;
  };
  // To be implemented; ranges have been checked. `memory` is null in plans.
  virtual Work start_write(const Range& range, const std::byte* memory) = 0;
  virtual Work start_read(const Range& range, std::byte* memory) = 0;

 private:
  Range range_to_write(std::int64_t offset, std::int64_t bytes);
  Range range_to_read(std::int64_t offset, std::int64_t bytes) const;
  // The number of the transfer; 0 where nothing is recorded.
  std::uint64_t note(Context& context, std::string_view op, const Tensor& tensor) const;

  std::string name_;
  FileLayout layout_;
  std::vector<bool> written_;  // by block
};

class Storage {
 public:
  virtual ~Storage() = default;
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  // `name` says what the file holds ("optimizer"), for the recorder's rows and for messages; it is
  // unique. OutputError, with the sizes needed and free, if the disk has not enough space.
  virtual std::unique_ptr<StateFile> create_file(const std::string& name,
                                                 const FileLayout& layout) = 0;
  // For people: "ext4, past the page cache, io_uring with registered buffers".
  virtual std::string description() const = 0;
  // The block size for the layouts of its files.
  std::int64_t block_bytes() const { return block_bytes_; }

 protected:
  explicit Storage(std::int64_t block_bytes) : block_bytes_(block_bytes) {}

 private:
  std::int64_t block_bytes_;
};

// A storage with files in `folder`. The folder and the arena must outlive the storage, the storage
// its files.
std::unique_ptr<Storage> make_disk_storage(StorageFolder& folder, const StorageOptions& options,
                                           Arena& arena);
// A storage for plans: no file is made, and nothing moves. With a planning arena, the arena's mark
// is the memory that a storage takes.
std::unique_ptr<Storage> make_meta_storage(const StorageOptions& options, Arena& arena);

// How much memory a storage and its files take from their arena.
std::int64_t storage_bytes(const StorageOptions& options);
std::int64_t checksum_bytes(const FileLayout& layout);

// A tensor that moves without a copy, since it begins at a multiple of kStorageAlignment.
Tensor allocate_staging(Arena& arena, DType dtype, const Shape& shape);

}  // namespace phalanx
