#include "phalanx/base/step_timers.h"

namespace phalanx {
namespace {

struct Row {
  std::string_view name;
  int level;
};

constexpr int kNoRow = 3;

// Indexed by StepTimer.
constexpr std::array<Row, kStepTimers> kRows = {{
    {"forward-backward", 1},
    {"forward-compute", 2},
    {"backward-compute", 2},
    {"batch-generator", 2},
    {"forward-recv", 2},
    {"forward-send", 2},
    {"backward-recv", 2},
    {"backward-send", 2},
    {"layernorm-grads-all-reduce", 1},
    {"embedding-grads-all-reduce", 1},
    {"all-grads-sync", 1},
    {"params-all-gather", 1},
    {"optimizer-count-zeros", 1},
    {"optimizer-clip-main-grad", 1},
    {"optimizer-inner-step", 1},
    {"optimizer", 1},
    {"model-and-optimizer-setup", 0},
    {"train/valid/test-data-iterators-setup", 0},
    {"load-checkpoint", 0},
    {"save-checkpoint", 0},
    {"evaluation", kNoRow},
    {"messages", kNoRow},
    {"data", kNoRow},
    {"files", kNoRow},
    {"snapshot", kNoRow},
}};
static_assert(static_cast<std::size_t>(StepTimer::kSnapshot) + 1 == kStepTimers);

}  // namespace

std::string_view name_of(StepTimer timer) { return kRows[static_cast<std::size_t>(timer)].name; }

int level_of(StepTimer timer) { return kRows[static_cast<std::size_t>(timer)].level; }

}  // namespace phalanx
