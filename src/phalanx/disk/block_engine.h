#pragma once
// Moves blocks between memory and files, many at once: by io_uring, or by threads that call pread
// and pwrite. An engine knows nothing of order, checksums or buffers.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "phalanx/disk/storage_options.h"

namespace phalanx {

// One read or write of a file's bytes.
struct BlockRequest {
  std::size_t slot = 0;  // identifies it while it is under way: below the queue depth
  bool is_write = false;
  int descriptor = -1;
  std::byte* memory = nullptr;
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
};

struct BlockCompletion {
  std::size_t slot = 0;
  std::int64_t result = 0;  // bytes, or -errno
};

// What a completion's result means for its request.
enum class Moved : std::uint8_t {
  kAll,
  kPart,  // the request is now the rest: to be submitted again
  kFailed,
};
// `direct`: the file is open past the page cache, where less than kStorageAlignment moves only at
// the end of a file.
Moved advance(BlockRequest& request, std::int64_t result, bool direct);
// "PATH: cannot write 4096 bytes at offset 0: No space left on device".
std::string fault_text(const std::string& path, const BlockRequest& request, std::int64_t result);

class BlockEngine {
 public:
  BlockEngine() = default;
  virtual ~BlockEngine() = default;
  BlockEngine(const BlockEngine&) = delete;
  BlockEngine& operator=(const BlockEngine&) = delete;

  // "io_uring with registered buffers".
  virtual std::string description() const = 0;

  // To be called before a file's first request and after its last one, from any thread.
  virtual void add_file(int descriptor) = 0;
  virtual void remove_file(int descriptor) noexcept = 0;

  // One thread uses these two. A request may begin as late as the next wait().
  virtual void submit(const BlockRequest& request) = 0;
  // Waits, and appends the completed requests: at least one, unless wake() was called.
  virtual void wait(std::vector<BlockCompletion>& completions) = 0;

  // Ends the present wait(), or the next one; from any thread.
  virtual void wake() noexcept = 0;
};

// The engine that the options name; SystemError if the system does not have it. kAutomatic: the
// first one that the system has, with the reason if that is not io_uring. `buffers` is memory that
// requests use, besides options.staging.
std::unique_ptr<BlockEngine> make_engine(const StorageOptions& options,
                                         std::span<std::byte> buffers);
std::unique_ptr<BlockEngine> make_uring_engine(const StorageOptions& options,
                                               std::span<std::byte> buffers);
// `reason`: why it is not io_uring, for its description.
std::unique_ptr<BlockEngine> make_thread_engine(const StorageOptions& options,
                                                const std::string& reason = "");

// Makes an engine: tests give one that fails.
using EngineMaker = std::function<std::unique_ptr<BlockEngine>(const StorageOptions& options,
                                                               std::span<std::byte> buffers)>;

}  // namespace phalanx
