#pragma once
// Who moves blocks between memory and files, many at once: io_uring, or threads that call pread and
// pwrite. An engine knows nothing of order, checksums or buffers: those are transfer_queue.h's.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "phalanx/offload/storage.h"

namespace phalanx {

// One read or write of a file's bytes.
struct BlockRequest {
  std::size_t slot = 0;  // its name while it is under way: below the queue depth
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

class BlockEngine {
 public:
  BlockEngine() = default;
  virtual ~BlockEngine() = default;
  BlockEngine(const BlockEngine&) = delete;
  BlockEngine& operator=(const BlockEngine&) = delete;

  // "io_uring with registered buffers".
  virtual std::string description() const = 0;

  // A file is announced before its first request and behind its last, from any thread.
  virtual void add_file(int descriptor) = 0;
  virtual void remove_file(int descriptor) noexcept = 0;

  // These two are one thread's. A request may begin as late as the next wait().
  virtual void submit(const BlockRequest& request) = 0;
  // Appends what has completed: something, unless wake() was called.
  virtual void wait(std::vector<BlockCompletion>& completions) = 0;

  // Ends the wait that runs, or the next one; from any thread.
  virtual void wake() noexcept = 0;
};

// The engine that the options name; of kAutomatic the first that the system has, and the reason
// where that is not io_uring. SystemError where it has not the one that is named. `buffers` is
// memory that requests use, beside options.staging.
std::unique_ptr<BlockEngine> make_engine(const StorageOptions& options,
                                         std::span<std::byte> buffers);
std::unique_ptr<BlockEngine> make_uring_engine(const StorageOptions& options,
                                               std::span<std::byte> buffers);
// `reason`: why it is not the other one, for its description.
std::unique_ptr<BlockEngine> make_thread_engine(const StorageOptions& options,
                                                const std::string& reason = "");

}  // namespace phalanx
