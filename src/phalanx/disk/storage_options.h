#pragma once
// How blocks move between memory and files.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace phalanx {

// The alignment of offsets, lengths and memory with which any file system moves blocks past the
// page cache.
inline constexpr std::int64_t kStorageAlignment = 4096;
inline constexpr std::int64_t kDefaultStorageBlock = std::int64_t{1} << 20;

// How blocks are handed to the kernel.
enum class StorageEngine : std::uint8_t {
  kAutomatic,  // io_uring if the system has it
  kIoUring,
  kThreads,  // that call pread and pwrite
};
std::string_view name_of(StorageEngine engine);

struct StorageOptions {
  StorageEngine engine = StorageEngine::kAutomatic;
  std::int64_t block_bytes = kDefaultStorageBlock;
  int queue_depth = 8;  // blocks under way at once
  int threads = 4;      // of kThreads
  bool direct = true;   // past the page cache if the file system can
  // Memory that many transfers use: io_uring keeps it mapped.
  std::vector<std::span<std::byte>> staging = {};
};

}  // namespace phalanx
