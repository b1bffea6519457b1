#include "phalanx/offload/disk_storage.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/log.h"
#include "phalanx/base/numeric.h"
#include "phalanx/disk/disk_access.h"
#include "phalanx/offload/transfer_queue.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;

class DiskFile final : public StateFile {
 public:
  DiskFile(const std::string& name, const FileLayout& layout, TransferQueue& queue, QueuedFile file)
      : StateFile(name, layout), queue_(queue), file_(std::move(file)) {
    queue_.add_file(file_);
  }
  ~DiskFile() override {
    queue_.close(file_);
    ::unlink(file_.path.c_str());
    ::close(file_.descriptor);
  }

  void settle() override {
    // The kernel follows the advice for whole pages that are already on the disk.
    if (::fdatasync(file_.descriptor) != 0) {
      throw IoError("{}: cannot sync: {}", file_.path, std::strerror(errno));
    }
    ::posix_fadvise(file_.descriptor, 0, 0, POSIX_FADV_DONTNEED);
  }

 protected:
  Work start_write(const Range& range, const std::byte* memory) override {
    // A request has one type of memory for both directions; a write only reads it.
    return start(range, true, const_cast<std::byte*>(memory));
  }
  Work start_read(const Range& range, std::byte* memory) override {
    return start(range, false, memory);
  }

 private:
  Work start(const Range& range, bool is_write, std::byte* memory) {
    return queue_.enqueue(file_, {.is_write = is_write,
                                  .memory = memory,
                                  .offset = range.offset,
                                  .bytes = range.bytes,
                                  .first_block = range.first_block});
  }

  TransferQueue& queue_;
  QueuedFile file_;
};

class DiskStorage final : public Storage {
 public:
  DiskStorage(StorageFolder& folder, const StorageOptions& options, Arena& arena,
              const EngineMaker& make)
      : Storage(options.block_bytes),
        folder_(folder),
        arena_(arena),
        access_(access_of(folder.path() / "probe.state", options.direct)) {
    const Tensor memory = arena.allocate(DType::kU8, {storage_bytes(options)});
    const std::span<std::byte> buffers(
        aligned(memory.data()),
        static_cast<std::size_t>(options.queue_depth * options.block_bytes));
    queue_ = std::make_unique<TransferQueue>(make(options, buffers), options, buffers.data());
    if (!folder.is_first()) return;
    const std::string line =
        fmt::format("{}: {}: {}", folder.flag(), folder.path().parent_path().string(),
                    DiskStorage::description());
    if (access_.direct || !options.direct) {
      log_info("{}", line);
    } else {
      log_warning("{}", line);
    }
  }

  std::unique_ptr<StateFile> create_file(const std::string& name,
                                         const FileLayout& layout) override {
    PHALANX_CHECK(layout.block_bytes() == block_bytes(),
                  "{}: blocks of {} bytes in a storage of {}", name, layout.block_bytes(),
                  block_bytes());
    folder_.expect_space(layout.bytes());
    const fs::path path = folder_.path() / (name + ".state");
    FileDescriptor file = make_file(path, access_);
    const int descriptor = file.get();
    try {
      reserve(path, descriptor, layout.bytes());
      const Tensor checksums = arena_.allocate(DType::kI64, {layout.blocks()});
      auto made = std::make_unique<DiskFile>(
          name, layout, *queue_,
          QueuedFile{.path = path.string(),
                     .descriptor = descriptor,
                     .direct = access_.direct,
                     .memory_alignment = access_.memory_alignment,
                     .block_bytes = layout.block_bytes(),
                     .checksums = {reinterpret_cast<std::uint64_t*>(checksums.data()),
                                   static_cast<std::size_t>(layout.blocks())}});
      file.release();
      return made;
    } catch (...) {
      ::unlink(path.c_str());
      throw;
    }
  }

  std::string description() const override {
    return fmt::format("{}, {}", access_.description(), queue_->engine().description());
  }

 private:
  void reserve(const fs::path& path, int descriptor, std::int64_t bytes) const {
    const int error = reserve_space(path, descriptor, bytes);
    if (error == ENOSPC) folder_.expect_space(bytes);
    if (error != 0) {
      throw OutputError("{}: cannot reserve {} ({} bytes; {} are free): {}", path.string(),
                        format_bytes(bytes), bytes, folder_.free_bytes(), std::strerror(error));
    }
  }

  StorageFolder& folder_;
  Arena& arena_;
  DiskAccess access_;
  std::unique_ptr<TransferQueue> queue_;
};

}  // namespace

std::unique_ptr<Storage> make_disk_storage(StorageFolder& folder, const StorageOptions& options,
                                           Arena& arena, const EngineMaker& make) {
  return std::make_unique<DiskStorage>(folder, options, arena, make);
}

std::unique_ptr<Storage> make_disk_storage(StorageFolder& folder, const StorageOptions& options,
                                           Arena& arena) {
  return make_disk_storage(folder, options, arena, make_engine);
}

}  // namespace phalanx
