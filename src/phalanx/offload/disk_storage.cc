#include "phalanx/offload/disk_storage.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/log.h"
#include "phalanx/base/numeric.h"
#include "phalanx/offload/transfer_queue.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;

// How files of a folder are read and written.
struct DiskAccess {
  bool direct = false;
  std::int64_t memory_alignment = kStorageAlignment;
  std::string reason = {};  // why not direct
};

int create(const fs::path& path, int flags) {
  return ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC | flags, 0600);
}

// Some file systems refuse to open a file past the page cache, some to read it.
bool reads_directly(const fs::path& path, DiskAccess& access) {
  const int descriptor = create(path, O_DIRECT);
  if (descriptor < 0) return false;
  alignas(kStorageAlignment) std::array<std::byte, kStorageAlignment> block;
  const bool works = ::ftruncate(descriptor, kStorageAlignment) == 0 &&
                     ::pread(descriptor, block.data(), block.size(), 0) == kStorageAlignment;
  struct statx status {};
  if (::statx(descriptor, "", AT_EMPTY_PATH, STATX_DIOALIGN, &status) == 0 &&
      (status.stx_mask & STATX_DIOALIGN) != 0 && status.stx_dio_mem_align > 0) {
    access.memory_alignment = status.stx_dio_mem_align;
  }
  ::close(descriptor);
  return works && access.memory_alignment <= kStorageAlignment;
}

DiskAccess access_of(const fs::path& folder, bool wants_direct) {
  DiskAccess access;
  struct statfs system {};
  const bool known = ::statfs(folder.c_str(), &system) == 0;
  if (!wants_direct) {
    access.reason = "as was asked";
  } else if (known && (system.f_type == TMPFS_MAGIC || system.f_type == RAMFS_MAGIC)) {
    access.reason = "the file system is in memory";
  } else {
    const fs::path probe = folder / "probe.state";
    access.direct = reads_directly(probe, access);
    ::unlink(probe.c_str());
    if (!access.direct) access.reason = "the file system has no O_DIRECT";
  }
  return access;
}

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

std::byte* aligned(std::byte* memory) {
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  return memory + (round_up(static_cast<std::int64_t>(address), kStorageAlignment) -
                   static_cast<std::int64_t>(address));
}

class DiskStorage final : public Storage {
 public:
  DiskStorage(StorageFolder& folder, const StorageOptions& options, Arena& arena,
              const EngineMaker& make)
      : Storage(options.block_bytes),
        folder_(folder),
        arena_(arena),
        access_(access_of(folder.path(), options.direct)) {
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
    const int descriptor = create(path, access_.direct ? O_DIRECT : 0);
    if (descriptor < 0) {
      throw OutputError("{}: cannot create: {}", path.string(), std::strerror(errno));
    }
    try {
      reserve(path, descriptor, layout.bytes());
      const Tensor checksums = arena_.allocate(DType::kI64, {layout.blocks()});
      return std::make_unique<DiskFile>(
          name, layout, *queue_,
          QueuedFile{.path = path.string(),
                     .descriptor = descriptor,
                     .direct = access_.direct,
                     .memory_alignment = access_.memory_alignment,
                     .block_bytes = layout.block_bytes(),
                     .checksums = {reinterpret_cast<std::uint64_t*>(checksums.data()),
                                   static_cast<std::size_t>(layout.blocks())}});
    } catch (...) {
      ::unlink(path.c_str());
      ::close(descriptor);
      throw;
    }
  }

  std::string description() const override {
    return fmt::format("{}, {}",
                       access_.direct ? "past the page cache"
                                      : fmt::format("through the page cache ({})", access_.reason),
                       queue_->engine().description());
  }

 private:
  // Reserves the file's space: later the disk cannot be too full for it.
  void reserve(const fs::path& path, int descriptor, std::int64_t bytes) const {
    int error = 0;
    do {
      error = ::fallocate(descriptor, 0, 0, bytes) == 0 ? 0 : errno;
    } while (error == EINTR);
    if (error == EOPNOTSUPP || error == ENOSYS) {
      error = ::ftruncate(descriptor, bytes) == 0 ? 0 : errno;
      if (error == 0) {
        log_warning("{}: the file system reserves no space: others may take what this file needs",
                    path.string());
      }
    }
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
