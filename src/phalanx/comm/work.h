#pragma once
// An operation that is under way while a rank does other things: a message, or bytes to and from a
// disk.

#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>

#include "phalanx/ops/backend.h"
#include "phalanx/tensor/recorder.h"

namespace phalanx {

// Copies refer to the same operation; a default-constructed Work is done.
class Work {
 public:
  using Clock = std::chrono::steady_clock;
  class State {
   public:
    virtual ~State() = default;
    virtual void wait(Queue queue) = 0;
    virtual void wait_host(Clock::time_point deadline) = 0;
    virtual bool done() = 0;
  };

  Work() = default;
  explicit Work(std::shared_ptr<State> state) : state_(std::move(state)) {}

  // Kernels enqueued on `queue` from now on see the result; the host need not wait.
  void wait(Queue queue) const {
    if (state_) state_->wait(queue);
  }
  // Returns when the result is there. An error at the deadline; of a message, a CommError.
  void wait_host(Clock::time_point deadline) const {
    if (state_) state_->wait_host(deadline);
  }
  bool done() const { return !state_ || state_->done(); }

 private:
  std::shared_ptr<State> state_;
};

// `work`, whose first wait is recorded as that of what began with this number; `work` itself
// without a recorder, which may end before the wait.
Work recorded(const Recorder* recorder, std::uint64_t number, Work work);

}  // namespace phalanx
