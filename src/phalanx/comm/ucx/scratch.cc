#include "phalanx/comm/ucx/scratch.h"

#include <utility>

#include "phalanx/comm/ucx/engine.h"
#include "phalanx/comm/ucx/operation.h"

namespace phalanx::ucx {

Scratch::Scratch() {
  for (Block& block : blocks_) free_.push_back(&block);
}

bool ScratchLease::await_ready() {
  if (scratch_.free_.empty()) return false;
  block_ = scratch_.free_.back();
  scratch_.free_.pop_back();
  return true;
}

void ScratchLease::await_resume() {
  if (block_->bytes >= bytes_) return;
  block_->memory.reset();
  block_->bytes = 0;
  block_->memory = std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(bytes_));
  block_->bytes = bytes_;
}

void ScratchLease::await_suspend(std::coroutine_handle<> task) {
  operation_.continue_with(task);
  scratch_.waiting_.push_back(this);
}

ScratchLease::~ScratchLease() {
  std::erase(scratch_.waiting_, this);
  if (block_ == nullptr) return;
  scratch_.free_.push_back(std::exchange(block_, nullptr));
  if (scratch_.waiting_.empty()) return;
  ScratchLease& next = *scratch_.waiting_.front();
  scratch_.waiting_.pop_front();
  next.await_ready();
  next.operation_.engine().resume(next.operation_);
}

}  // namespace phalanx::ucx
