#include "phalanx/offload/timed_storage.h"

#include <span>
#include <utility>

namespace phalanx {
namespace {

class TimedTransfer final : public Work::State {
 public:
  TimedTransfer(Work work, StepTimers& timers) : work_(std::move(work)), timers_(timers) {}

  void wait(Queue queue) override {
    const TimerScope time(&timers_, StepTimer::kFiles);
    work_.wait(queue);
  }
  void wait_host(Work::Clock::time_point deadline) override {
    const TimerScope time(&timers_, StepTimer::kFiles);
    work_.wait_host(deadline);
  }
  bool done() override { return work_.done(); }

 private:
  Work work_;
  StepTimers& timers_;
};

class TimedFile final : public StateFile {
 public:
  TimedFile(std::unique_ptr<StateFile> inner, StepTimers* const& timers)
      : StateFile(inner->name(), inner->layout()), inner_(std::move(inner)), timers_(timers) {}

  void settle() override { inner_->settle(); }

 protected:
  // The transfer has been recorded already.
  Work start_write(const Range& range, const std::byte* memory) override {
    return timed(
        inner_->write(range.offset, std::span(memory, static_cast<std::size_t>(range.bytes))));
  }
  Work start_read(const Range& range, std::byte* memory) override {
    return timed(
        inner_->read(range.offset, std::span(memory, static_cast<std::size_t>(range.bytes))));
  }

 private:
  Work timed(Work work) const {
    if (timers_ == nullptr) return work;
    return Work(std::make_shared<TimedTransfer>(std::move(work), *timers_));
  }

  std::unique_ptr<StateFile> inner_;
  StepTimers* const& timers_;  // of the storage
};

}  // namespace

TimedStorage::TimedStorage(std::unique_ptr<Storage> inner)
    : Storage(inner->block_bytes()), inner_(std::move(inner)) {}

std::unique_ptr<StateFile> TimedStorage::create_file(const std::string& name,
                                                     const FileLayout& layout) {
  return std::make_unique<TimedFile>(inner_->create_file(name, layout), timers_);
}

}  // namespace phalanx
