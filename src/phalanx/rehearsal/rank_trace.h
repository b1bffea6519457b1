#pragma once
// What a rank does in a usual step: the actions of its program, and the ops and messages of each
// distinct one, as the planning backend records them.

#include <cstddef>
#include <vector>

#include "phalanx/model/model.h"
#include "phalanx/ops/device_choice.h"
#include "phalanx/pipeline/action.h"
#include "phalanx/rank/step_programs.h"
#include "phalanx/settings/train_config.h"
#include "phalanx/tensor/recorder.h"

namespace phalanx {

struct RankTrace {
  int rank = 0;       // of the world
  Trace before = {};  // the program: losses that are counted beforehand
  std::vector<Action> actions = {};
  std::vector<Trace> distinct = {};
  std::vector<std::size_t> numbers = {};  // by action: its index in `distinct`
};

// Of one rank of the world of `config`. Nothing of the model's size is allocated.
RankTrace trace_rank(const TrainConfig& config, const Model& model, const StepPrograms& programs,
                     int number, const DeviceChoice& kernels);

}  // namespace phalanx
