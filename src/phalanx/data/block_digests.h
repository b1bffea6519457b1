#pragma once
// The digest (XXH3) of every block of a large file: which bytes of it have changed, without a copy
// of it. A .bin may be terabytes, so a run takes them while it trains (DigestThread), and keeps
// them in its checkpoints and in an index cache.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "phalanx/data/index_cache.h"

namespace phalanx {

// Bytes of a block: 16 MiB, or the least 2^k times that which makes at most 4,096 blocks. So the
// digests of a file take at most 64 KiB in a manifest.
std::int64_t digest_block_bytes(std::int64_t file_bytes);

// The digests of a file's first blocks; the file's last block may be shorter.
struct BlockDigests {
  std::int64_t file_bytes = 0;
  std::int64_t block_bytes = 0;
  std::vector<std::uint64_t> digests;

  std::int64_t blocks() const;  // of the whole file
  bool is_complete() const { return std::ssize(digests) == blocks(); }
  // The digest of all blocks in order, for messages. Only that of a complete set means anything.
  std::uint64_t digest() const;
  friend bool operator==(const BlockDigests&, const BlockDigests&) = default;
};

// The first block that both have and that differs; nothing where the blocks are not the same
// ranges.
std::optional<std::int64_t> differing_block(const BlockDigests& a, const BlockDigests& b);
// "bytes 16,777,216 to 33,554,431".
std::string byte_range(const BlockDigests& digests, std::int64_t block);

// A file as it was when it was looked at: what its digests in a cache are known by.
struct FileIdentity {
  std::int64_t bytes = 0;
  std::int64_t modified_ns = 0;  // since 1970
  std::uint64_t inode = 0;
  std::uint64_t device = 0;
  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};
// InputMissingError, IoError.
FileIdentity identity_of_file(const std::filesystem::path& path);

// Reads the file, not through a map: 1 MiB at a time, and no more memory. `poll` is called before
// each; what it throws ends the reading, as does an IoError. Each block's digest goes to `take`.
void read_block_digests(const std::filesystem::path& path, const std::function<void()>& poll,
                        const std::function<void(std::uint64_t)>& take);
// All of them.
BlockDigests block_digests_of(const std::filesystem::path& path,
                              const std::function<void()>& poll = nullptr);

// Complete sets in a cache, of a file with this identity.
std::optional<BlockDigests> find_block_digests(const IndexCache& cache, const FileIdentity& file);
void keep_block_digests(const IndexCache& cache, const FileIdentity& file,
                        const BlockDigests& digests);

// Takes the digests of files one after the other, in a thread that gives way to everything else: it
// runs where a core is idle (SCHED_IDLE), reads where the disk is (idle I/O class) and at most
// 128 MiB a second, and does not leave files in the page cache that would fill it. What others read
// from it is never behind a lock that it holds.
class DigestThread {
 public:
  struct File {
    std::filesystem::path path;
    // What its blocks are to be; may be incomplete.
    std::optional<BlockDigests> expected;
  };

  // Files of up to this size in all are read here and now, not in the background: a short run knows
  // them.
  static constexpr std::int64_t kReadAtOnce = std::int64_t{32} << 20;

  // Sets that the cache has, of files as they are, are not taken again; it gets complete ones.
  // `cache` may be null, else it must outlive this.
  DigestThread(std::vector<File> files, const IndexCache* cache);
  DigestThread(const DigestThread&) = delete;
  DigestThread& operator=(const DigestThread&) = delete;
  ~DigestThread();

  // What is known so far, in the order of the files.
  std::vector<BlockDigests> digests() const;
  // A block that is not what it should be, if one is known by now: cheap to ask.
  struct Difference {
    std::size_t file = 0;
    std::int64_t block = 0;
  };
  std::optional<Difference> difference() const;
  // Until all are taken, for tests.
  void wait();

 private:
  // One file's digests as they come: room for all of them, the first `count` are there.
  struct Progress {
    File file;
    FileIdentity identity;
    BlockDigests digests;
    std::atomic<std::int64_t> count = 0;
    std::atomic<std::int64_t> differing = -1;  // the first block that does
    BlockDigests so_far() const;
  };

  void take(Progress& progress, std::uint64_t digest);
  bool take_cached(Progress& progress);
  void run(const std::stop_token& stop);

  const IndexCache* cache_;
  std::vector<std::unique_ptr<Progress>> files_;
  std::jthread thread_;
};

}  // namespace phalanx
