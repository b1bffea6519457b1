#pragma once
// Files on a fast disk that hold the states of a training run that do not fit in memory: optimizer
// states, parameters, activations. A rank writes them and reads them back many times a step while
// it computes. To bytes this is what comm/ is to messages: a call is enqueued and returns a Work,
// its tensor belongs to the storage until that has been waited for, and a planning implementation
// moves nothing and records the same.
//
// Storage is one rank's, and used by one thread at a time. Its files live in a StorageFolder
// (storage_folder.h) and no longer than the run: nothing is synced, nothing is kept.
//
// - A read sees what was written to its range before, and a write waits for reads of its range: the
//   order of calls is the order in which ranges are touched.
// - Every block's checksum is kept in memory and compared when it is read: ChangedFileError names
//   file and offset. Other failures are IoError. Whichever comes first ends the storage: it is
//   thrown by the waits of what it stopped and by every later call.
// - A Work may be dropped. What is under way to or from a file is awaited when the file goes, what
//   had not begun is left out; so tensors must outlive files.
// - Tensors are contiguous and in host memory. Those that begin at a multiple of 4,096 bytes
//   (allocate_staging) move without a copy; others go through bounce buffers of the storage.
//
// What the storage takes of memory comes from an arena: buffers when it is made, checksums with
// each file. Nothing grows later.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/comm/work.h"
#include "phalanx/offload/file_layout.h"
#include "phalanx/ops/backend.h"

namespace phalanx {

class StorageFolder;

// A file has not what was written to it. It is no input of the run: a restart, from the last
// checkpoint, writes it anew.
using ChangedFileError = ErrorOf<ErrorCode::kTemporary>;

// Who hands blocks to the kernel.
enum class StorageEngine : std::uint8_t {
  kAutomatic,  // io_uring, where the system has it
  kIoUring,
  kThreads,  // that call pread and pwrite
};
std::string_view name_of(StorageEngine engine);

struct StorageOptions {
  StorageEngine engine = StorageEngine::kAutomatic;
  std::int64_t block_bytes = kDefaultStorageBlock;
  int queue_depth = 8;  // blocks under way at once
  int threads = 4;      // of kThreads
  bool direct = true;   // past the page cache, where the file system can
  // Memory that transfers use again and again: io_uring keeps it mapped.
  std::vector<std::span<std::byte>> staging = {};
};

// One file, of a size that is fixed and taken from the disk when it is made.
class StateFile {
 public:
  virtual ~StateFile() = default;
  StateFile(const StateFile&) = delete;
  StateFile& operator=(const StateFile&) = delete;

  const std::string& name() const { return name_; }
  const FileLayout& layout() const { return layout_; }

  // `offset` is a record's, or that of a block in it; the tensor is as long as the record or whole
  // blocks of it. What is read was written before.
  Work write(Context& context, std::int64_t offset, const Tensor& tensor);
  Work read(Context& context, std::int64_t offset, const Tensor& tensor);
  // Of memory that is no tensor's, and recorded nowhere.
  Work write(std::int64_t offset, std::span<const std::byte> memory);
  Work read(std::int64_t offset, std::span<std::byte> memory);

  // For measurements, with nothing under way: what was written is on the disk, and not in memory.
  virtual void settle() = 0;

 protected:
  StateFile(std::string name, FileLayout layout);

  struct Range {
    std::int64_t offset = 0;
    std::int64_t bytes = 0;
    std::int64_t first_block = 0;
  };
  // What an implementation does; ranges have been checked. `memory` is null in plans.
  virtual Work start_write(const Range& range, const std::byte* memory) = 0;
  virtual Work start_read(const Range& range, std::byte* memory) = 0;

 private:
  Range range_to_write(std::int64_t offset, std::int64_t bytes);
  Range range_to_read(std::int64_t offset, std::int64_t bytes) const;
  void note(Context& context, std::string_view op, const Tensor& tensor) const;

  std::string name_;
  FileLayout layout_;
  std::vector<bool> written_;  // by block
};

class Storage {
 public:
  virtual ~Storage() = default;
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  // `name` is what the file holds, in the recorder's rows and in messages, and unique: "optimizer".
  // OutputError that says how much is needed and free where the disk has not so much.
  virtual std::unique_ptr<StateFile> create_file(const std::string& name,
                                                 const FileLayout& layout) = 0;
  // What it turned out to be: "ext4, past the page cache, io_uring with registered buffers".
  virtual std::string description() const = 0;
  // Of the layouts of its files.
  std::int64_t block_bytes() const { return block_bytes_; }

 protected:
  explicit Storage(std::int64_t block_bytes) : block_bytes_(block_bytes) {}

 private:
  std::int64_t block_bytes_;
};

// Files in `folder`. The folder and the arena outlive the storage, the storage its files.
std::unique_ptr<Storage> make_disk_storage(StorageFolder& folder, const StorageOptions& options,
                                           Arena& arena);
// Nothing moves and nothing is made: with a planning arena, its mark is what a storage takes.
std::unique_ptr<Storage> make_meta_storage(const StorageOptions& options, Arena& arena);

// What a storage and its files take of their arena.
std::int64_t storage_bytes(const StorageOptions& options);
std::int64_t checksum_bytes(const FileLayout& layout);

// A tensor that moves without a copy: it begins at a multiple of kStorageAlignment.
Tensor allocate_staging(Arena& arena, DType dtype, const Shape& shape);

}  // namespace phalanx
