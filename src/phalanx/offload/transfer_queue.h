#pragma once
// The transfers of one rank's files, in order. While the rank computes, a thread cuts them into
// blocks, hands as many to the engine as may be under way, copies unaligned memory, and computes
// and compares checksums.
//
// Blocks begin in the order in which transfers were enqueued. A block whose range is under way
// waits for it, unless both only read, and all later blocks wait too: no block overtakes another.

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/base/progress.h"
#include "phalanx/comm/work.h"
#include "phalanx/disk/block_engine.h"

namespace phalanx {

// A file as the queue sees it. The queue closes it, and must outlive it.
struct QueuedFile {
  std::string path;
  int descriptor = -1;
  // Past the page cache: offsets, lengths and addresses must be multiples of these.
  bool direct = false;
  std::int64_t memory_alignment = kStorageAlignment;
  std::int64_t block_bytes = kDefaultStorageBlock;
  std::span<std::uint64_t> checksums = {};  // by block

  // Used by the queue only.
  std::int64_t transfers = 0;
  bool closes = false;
};

struct TransferRequest {
  bool is_write = false;
  std::byte* memory = nullptr;
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
  std::int64_t first_block = 0;
};

class TransferQueue {
 public:
  // `buffers`: a block for each request that may be under way, at a multiple of kStorageAlignment.
  TransferQueue(std::unique_ptr<BlockEngine> engine, const StorageOptions& options,
                std::byte* buffers);
  TransferQueue(const TransferQueue&) = delete;
  TransferQueue& operator=(const TransferQueue&) = delete;
  // All files must have been closed.
  ~TransferQueue();

  // Enqueues a transfer. Throws if the queue has failed before.
  Work enqueue(QueuedFile& file, const TransferRequest& request);
  // Waits for the transfers under way; drops those that have not begun.
  void close(QueuedFile& file) noexcept;

  const BlockEngine& engine() const { return *engine_; }
  void add_file(const QueuedFile& file) { engine_->add_file(file.descriptor); }

 private:
  struct Failure {
    ErrorCode code;
    std::string message;
    [[noreturn]] void raise() const;
  };
  class Transfer;
  // A block under way.
  struct Slot {
    std::shared_ptr<Transfer> transfer;
    std::int64_t block = 0;       // of the file
    std::byte* memory = nullptr;  // the tensor's
    std::int64_t bytes = 0;       // of it
    BlockRequest rest{};          // the part that has not moved yet
    bool is_bounced = false;
  };

  void run() noexcept;
  bool take_new();
  void start_blocks();
  bool conflicts(const Transfer& transfer) const;
  bool leave_out(Transfer& transfer);
  void start_block(const std::shared_ptr<Transfer>& transfer, std::size_t number);
  void complete(const BlockCompletion& completion);
  void deliver(const Slot& slot);
  void release(Slot& slot);
  void fail(Transfer& transfer, Failure failure);
  void finish(Transfer& transfer);
  void give_up(const std::string& reason) noexcept;
  std::byte* buffer(std::size_t slot) const;

  std::unique_ptr<BlockEngine> engine_;
  Progress* progress_ = thread_progress();  // of the rank
  std::int64_t block_bytes_;
  std::byte* buffers_;

  std::mutex mutex_;
  std::condition_variable is_idle_;
  std::deque<std::shared_ptr<Transfer>> new_;
  std::shared_ptr<const Failure> failure_;  // the first; null: none
  bool stops_ = false;

  // Used by the thread only.
  std::deque<std::shared_ptr<Transfer>> pending_;
  std::vector<Slot> slots_;
  std::vector<BlockCompletion> completions_;
  std::size_t under_way_ = 0;
  std::jthread thread_;
};

}  // namespace phalanx
