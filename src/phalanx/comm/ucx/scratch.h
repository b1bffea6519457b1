#pragma once
// Memory for the sums of one communicator. A sum of one communicator never waits for a sum of
// another: that one may be waiting for a slow rank.

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

namespace phalanx::ucx {

class Operation;
class ScratchLease;

// Used with the engine's lock held.
class Scratch {
 public:
  // So many sums of a communicator are under way at the same time: while the data of one is
  // waited for, another is added.
  static constexpr int kBlocks = 2;

  Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

 private:
  friend ScratchLease;
  struct Block {
    std::unique_ptr<std::byte[]> memory;
    std::int64_t bytes = 0;
  };
  std::vector<Block> blocks_{kBlocks};
  std::vector<Block*> free_;
  std::deque<ScratchLease*> waiting_;
};

// A block of memory of a task. `co_await lease` waits for a free one.
class ScratchLease {
 public:
  ScratchLease(Operation& operation, Scratch& scratch, std::int64_t bytes)
      : operation_(operation), scratch_(scratch), bytes_(bytes) {}
  ~ScratchLease();
  ScratchLease(const ScratchLease&) = delete;
  ScratchLease& operator=(const ScratchLease&) = delete;
  bool await_ready();
  void await_suspend(std::coroutine_handle<> task);
  void await_resume();
  std::byte* data() const { return block_->memory.get(); }

 private:
  Operation& operation_;
  Scratch& scratch_;
  std::int64_t bytes_;
  Scratch::Block* block_ = nullptr;
};

}  // namespace phalanx::ucx
