#include "phalanx/pipeline/batch_slots.h"

#include <algorithm>
#include <functional>
#include <queue>

#include "phalanx/base/error.h"

namespace phalanx {

BatchSlots::BatchSlots(const Program& program)
    : slots_(static_cast<std::size_t>(program.microbatches), -1),
      first_pass_(slots_.size(), program.actions.size()) {
  std::vector<std::size_t> last_pass(slots_.size(), 0);
  int loaded = 0;
  for (std::size_t i = 0; i < program.actions.size(); ++i) {
    const Action& action = program.actions[i];
    if (!is_pass(action.kind)) continue;
    const auto m = static_cast<std::size_t>(action.microbatch);
    last_pass[m] = i;
    if (first_pass_[m] != program.actions.size()) continue;
    first_pass_[m] = i;
    // Data is read as a stream: microbatches must be loaded in order.
    PHALANX_CHECK(action.microbatch == loaded, "microbatch {} is loaded as number {}",
                  action.microbatch, loaded);
    ++loaded;
  }
  std::priority_queue<int, std::vector<int>, std::greater<>> free;
  for (std::size_t i = 0; i < program.actions.size(); ++i) {
    const Action& action = program.actions[i];
    if (!is_pass(action.kind)) continue;
    const auto m = static_cast<std::size_t>(action.microbatch);
    if (first_pass_[m] == i) {
      if (free.empty()) free.push(count_++);
      slots_[m] = free.top();
      free.pop();
    }
    if (last_pass[m] == i) free.push(slots_[m]);
  }
}

}  // namespace phalanx
