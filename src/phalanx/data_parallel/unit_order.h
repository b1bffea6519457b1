#pragma once
// Which groups of parameters the units of a chunk use, and when. The list of units determines this,
// so nothing is traced. On a chunk of n units a microbatch has 2 n moments: forward passes in
// order, then backward passes in reverse.

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "phalanx/data_parallel/flat_layout.h"
#include "phalanx/nn/pass_states.h"

namespace phalanx {

// One group per unit for parameters that only this unit uses, and one group per parameter that
// several units use. Parameters for which `stays` holds, and those of another reduction domain, are
// in separate groups; those that are not trained are in none.
using UnitList = std::span<const std::unique_ptr<nn::Unit>>;
ParamGroups unit_groups(const nn::ParamTable& table, const std::vector<UnitList>& chunks,
                        const std::function<bool(const ParamSpec&)>& stays);

// The groups that the units of a chunk use.
struct UnitOrder {
  struct Unit {
    const nn::Unit* unit = nullptr;
    // Groups whose weights the forward pass (or recomputation) and the backward pass read.
    std::vector<int> read_forward;
    std::vector<int> read_backward;
    std::vector<int> added;     // groups to whose gradients it adds
    int recomputed_until = -1;  // the last unit that is recomputed with it; -1: none
  };
  std::vector<Unit> units;
  int first_backward = 0;  // units in front of this one have no backward passes

  int size() const { return static_cast<int>(units.size()); }
  int forward_moment(int unit) const { return unit; }
  int backward_moment(int unit) const { return 2 * size() - 1 - unit; }
  int moment_of(const nn::Unit& unit, nn::PassKind pass) const;
  int index_of(const nn::Unit& unit) const;
  // The first and the last point of a saved tensor that is needed from or until a moment.
  PassPoint begin(int moment) const;
  PassPoint end(int moment) const;
};
// `recomputed_until` by unit.
UnitOrder unit_order(UnitList units, const std::vector<int>& recomputed_until,
                     const ParamGroups& groups, int first_backward = 0);

// Moments during which a group's weights are whole.
struct WeightHold {
  int group = 0;
  int read = 0;      // this rank begins to read its part from the file
  int gathered = 0;  // the gather begins
  int first = 0;     // the first and the last moment that needs the weights
  int last = 0;
};

struct GatherOptions {
  int prefetch = 1;  // moments ahead
  bool reshard_after_forward = true;
};

// In the order in which their gathers start. A group is kept if it would be gathered again at once.
// `is_cut`: by group; other weights are always whole.
std::vector<WeightHold> weight_holds(const UnitOrder& units, const std::vector<bool>& is_cut,
                                     const nn::PassOrder& order, const GatherOptions& options);

// Units during which a group's gradients are whole: from the first to the last that adds to them,
// in backward order. Holds are ordered by their start.
struct GradientHold {
  int group = 0;
  int first = 0;
  int last = 0;
};
std::vector<GradientHold> gradient_holds(const UnitOrder& units);

}  // namespace phalanx
