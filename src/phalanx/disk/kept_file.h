#pragma once
// A file that stays: its space is reserved when it is made, an engine writes it block by block
// while the caller fills the next ones, and it is complete and on the disk when finish() returns.
// Every block has a digest.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "phalanx/base/file_descriptor.h"
#include "phalanx/disk/block_engine.h"
#include "phalanx/disk/disk_access.h"

namespace phalanx {

// Of a checkpoint's blocks, which are what is read and verified at once.
inline constexpr std::int64_t kKeptBlock = std::int64_t{8} << 20;

// Three blocks in memory: one is filled, two move.
inline StorageOptions kept_file_options() {
  return {.block_bytes = kKeptBlock, .queue_depth = 3, .threads = 2};
}

// One thread uses it.
class KeptFile {
 public:
  // Makes `path`, which must not exist, of `bytes`. OutputError if it cannot be made or the disk
  // has not so much space.
  KeptFile(std::filesystem::path path, std::int64_t bytes,
           const StorageOptions& options = kept_file_options(),
           const EngineMaker& make = make_engine);
  KeptFile(const KeptFile&) = delete;
  KeptFile& operator=(const KeptFile&) = delete;
  // Removes a file that was not finished.
  ~KeptFile();

  // Appends. OutputError.
  void write(std::span<const std::byte> bytes);
  // The same without a copy: room() waits until there is room for the next bytes, and fill() says
  // how many of them the caller has put there. OutputError.
  std::span<std::byte> room();
  void fill(std::int64_t bytes);
  std::int64_t written() const { return written_; }
  // To be called when all `bytes` are written (else InternalError): waits until they are on the
  // disk. The XXH3 of every block; the last one may be shorter. OutputError.
  std::vector<std::uint64_t> finish();

  // "past the page cache, io_uring with registered buffers".
  std::string description() const;

 private:
  void start_block();
  void wait_for_one();
  void drain() noexcept;
  std::span<std::byte> buffer(std::size_t slot) const;

  std::filesystem::path path_;
  std::int64_t bytes_;
  std::int64_t block_bytes_;
  std::int64_t buffer_bytes_;  // of a block's buffer
  DiskAccess access_;
  FileDescriptor file_;
  std::unique_ptr<std::byte[]> memory_;
  std::unique_ptr<BlockEngine> engine_;  // goes before the memory
  std::vector<BlockRequest> requests_;   // by slot; without bytes: its buffer is free
  std::vector<BlockCompletion> completions_;
  std::vector<std::uint64_t> digests_;
  std::size_t slot_ = 0;     // that is being filled
  std::int64_t filled_ = 0;  // bytes of it
  std::int64_t written_ = 0;
  bool is_finished_ = false;
};

}  // namespace phalanx
