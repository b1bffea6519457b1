#pragma once
// What is under way while a rank goes on: a message, or bytes to and from a disk.

#include <chrono>
#include <memory>
#include <utility>

#include "phalanx/ops/backend.h"

namespace phalanx {

// Copies share it; a default one is done.
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

  // What is enqueued on `queue` from here on sees the result; the host need not wait.
  void wait(Queue queue) const {
    if (state_) state_->wait(queue);
  }
  // Returns when the result is there; an error at the deadline, CommError of a message.
  void wait_host(Clock::time_point deadline) const {
    if (state_) state_->wait_host(deadline);
  }
  bool done() const { return !state_ || state_->done(); }

 private:
  std::shared_ptr<State> state_;
};

}  // namespace phalanx
