#pragma once
// A storage whose waits are counted: the time between asking for what is under way and having it
// (StepTimer::kFiles). Storages know nothing of it.

#include <memory>
#include <string>

#include "phalanx/base/step_timers.h"
#include "phalanx/offload/storage.h"

namespace phalanx {

class TimedStorage final : public Storage {
 public:
  explicit TimedStorage(std::unique_ptr<Storage> inner);

  // What begins from now on is counted there; null: nowhere. It must outlive these works' waits.
  void time_with(StepTimers* timers) { timers_ = timers; }

  std::unique_ptr<StateFile> create_file(const std::string& name,
                                         const FileLayout& layout) override;
  std::string description() const override { return inner_->description(); }

 private:
  std::unique_ptr<Storage> inner_;
  StepTimers* timers_ = nullptr;
};

}  // namespace phalanx
