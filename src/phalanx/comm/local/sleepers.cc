#include "phalanx/comm/local/sleepers.h"

#include <utility>

namespace phalanx::local {

void Sleepers::add(Sleeper& sleeper) {
  std::vector<Sleeper*>& sleepers = by_operation_[sleeper.waits_for];
  sleeper.index = sleepers.size();
  sleepers.push_back(&sleeper);
}

void Sleepers::remove(Sleeper& sleeper) {
  if (sleeper.woken) return;
  const auto found = by_operation_.find(sleeper.waits_for);
  std::vector<Sleeper*>& sleepers = found->second;
  sleepers[sleeper.index] = sleepers.back();
  sleepers[sleeper.index]->index = sleeper.index;
  sleepers.pop_back();
  if (sleepers.empty()) by_operation_.erase(found);
}

void Sleepers::wake_last_for(const Operation& operation) {
  const auto found = by_operation_.find(&operation);
  Sleeper& sleeper = *found->second.back();
  found->second.pop_back();
  if (found->second.empty()) by_operation_.erase(found);
  sleeper.woken = true;
  sleeper.wake.notify_one();
}

void Sleepers::wake_all_for(const Operation& operation) {
  while (by_operation_.contains(&operation)) wake_last_for(operation);
}

void Sleepers::wake_some(const Operation& operation, std::int64_t count) {
  for (; count > 0 && by_operation_.contains(&operation); --count) wake_last_for(operation);
  for (; count > 0 && !by_operation_.empty(); --count) wake_last_for(*by_operation_.begin()->first);
}

void Sleepers::wake_all() {
  while (!by_operation_.empty()) wake_last_for(*by_operation_.begin()->first);
}

}  // namespace phalanx::local
