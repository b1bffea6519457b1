#include "phalanx/pipeline/schedules/no_pipelining.h"

namespace phalanx {

Program no_pipelining(int microbatches) {
  Program program{.actions = {}, .chunks = 1, .microbatches = microbatches, .forward_only = false};
  for (int m = 0; m < microbatches; ++m) {
    program.actions.push_back({ActionKind::kForward, 0, m});
    program.actions.push_back({ActionKind::kBackward, 0, m});
  }
  program.actions.push_back({ActionKind::kReduceGradients, 0, 0});
  program.actions.push_back({ActionKind::kOptimizerStep, 0, 0});
  return program;
}

Program forward_only(int microbatches) {
  Program program{.actions = {}, .chunks = 1, .microbatches = microbatches, .forward_only = true};
  for (int m = 0; m < microbatches; ++m) program.actions.push_back({ActionKind::kForward, 0, m});
  return program;
}

}  // namespace phalanx
