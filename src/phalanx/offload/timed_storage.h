#pragma once
// A storage that measures its waits: the time between asking for a transfer and its end
// (StepTimer::kFiles).

#include <memory>
#include <string>

#include "phalanx/base/step_timers.h"
#include "phalanx/offload/storage.h"

namespace phalanx {

class TimedStorage final : public Storage {
 public:
  explicit TimedStorage(std::unique_ptr<Storage> inner);

  // Sets where the waits of transfers that begin from now on are counted; null: nowhere. It must
  // outlive these waits.
  void time_with(StepTimers* timers) { timers_ = timers; }

  std::unique_ptr<StateFile> create_file(const std::string& name,
                                         const FileLayout& layout) override;
  std::string description() const override { return inner_->description(); }

 private:
  std::unique_ptr<Storage> inner_;
  StepTimers* timers_ = nullptr;
};

}  // namespace phalanx
