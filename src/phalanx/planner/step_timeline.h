#pragma once
// What one rank of data parallelism does in a step, in its order: passes unit by unit, the weights
// and gradients that move for them, files, and the update. It is not simulated: the rank's program
// runs on the planning backend and is listened to.
//
// The axis is the order. A pass of a unit is 1 long, and so is the update; what is waited for where
// it begins is 1/2 long, with no pass beside it. No length is a time.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/data_parallel/state_observer.h"
#include "phalanx/nn/saved_tensor.h"
#include "phalanx/planner/plan.h"

namespace phalanx {

struct StepTimeline {
  // A unit, or something that belongs to none: a table that units share, or a bucket of parameters
  // of many units.
  struct Row {
    std::string name;
    bool is_unit = false;
  };
  struct Pass {
    int row = 0;
    nn::PassKind kind = nn::PassKind::kForward;  // kBackwardInput: both backward passes as one
    int microbatch = 0;
    double begin = 0.0;
    double end = 0.0;
  };
  struct Move {
    StateMove move = StateMove::kWeights;
    int number = 0;  // of a group, or a bucket
    int row = 0;
    std::int64_t bytes = 0;  // of all ranks' parts together
    double begin = 0.0;
    double done = 0.0;     // waited for
    double end = 0.0;      // of whole weights: let go
    bool goes_on = false;  // into the next step: not waited for in this one
  };
  struct Transfers {
    std::string file;
    std::string op;
    double begin = 0.0;  // they begin between these
    double end = 0.0;
    std::int64_t count = 0;
    std::int64_t bytes = 0;
  };

  std::vector<Row> rows;
  std::vector<Pass> passes;
  std::vector<Move> moves;
  std::vector<Transfers> transfers;
  double update_begin = 0.0;
  double update_end = 0.0;
  double length = 0.0;

  // Whole weights, and those that come, at most at once.
  std::int64_t most_weight_bytes() const;
};

// Of rank 0. ConfigError of a pipeline, and of a step of too many passes for a picture.
StepTimeline step_timeline(const RunPlan& plan);

// One SVG document.
std::string to_svg(const StepTimeline& timeline, const std::string& title);

}  // namespace phalanx
