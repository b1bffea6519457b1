#pragma once
// The order in which one data-parallel rank works in a step: passes unit by unit, the weights and
// gradients that move for them, files, and the update. Nothing is simulated: the rank's program
// runs on the planning backend, and observers record the order.
//
// The axis is the order, and no length is a time: a pass of a unit and the update have length 1; a
// move that the rank begins and waits for at once has length 1/2, without a pass.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/data_parallel/state_observer.h"
#include "phalanx/nn/saved_tensor.h"
#include "phalanx/planner/plan.h"

namespace phalanx {

struct StepTimeline {
  // A unit, or parameters that do not belong to one: a table that units share, or a bucket.
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
    std::int64_t bytes = 0;  // the parts of all ranks together
    double begin = 0.0;
    double done = 0.0;     // when the rank has waited for it
    double end = 0.0;      // when whole weights are released
    bool goes_on = false;  // into the next step: this step does not wait for it
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

  // The most bytes at any time of weights that are whole or on their way.
  std::int64_t most_weight_bytes() const;
};

// The timeline of rank 0. ConfigError for a pipeline, and for a step of too many passes.
StepTimeline step_timeline(const RunPlan& plan);

// One SVG document.
std::string to_svg(const StepTimeline& timeline, const std::string& title);

}  // namespace phalanx
