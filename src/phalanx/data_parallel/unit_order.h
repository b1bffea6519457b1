#pragma once
// Which groups of parameters the units of a chunk use, and when: read off the program, so that
// gathers need no tracing. A microbatch's life on a chunk of n units is a sequence of 2 n moments:
// its forward passes, unit by unit, and its backward passes, in reverse.

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "phalanx/data_parallel/flat_layout.h"
#include "phalanx/nn/pass_states.h"

namespace phalanx {

// A group for the parameters of each unit, where it is the first to use them, and one for each that
// others use too. Those that stay are in groups of their own.
using UnitList = std::span<const std::unique_ptr<nn::Unit>>;
ParamGroups unit_groups(const nn::ParamTable& table, const std::vector<UnitList>& chunks,
                        const std::function<bool(const ParamSpec&)>& stays);

// What the units of a chunk use, in groups.
struct UnitOrder {
  struct Unit {
    const nn::Unit* unit = nullptr;
    std::vector<int> read_forward;   // whose weights the forward pass, or recomputation, reads
    std::vector<int> read_backward;  // and backward
    std::vector<int> added;          // to whose gradients it adds
    int recomputed_until = -1;       // the last of those that are recomputed with it; -1: it is not
  };
  std::vector<Unit> units;

  int size() const { return static_cast<int>(units.size()); }
  int forward_moment(int unit) const { return unit; }
  int backward_moment(int unit) const { return 2 * size() - 1 - unit; }
  int moment_of(const nn::Unit& unit, nn::PassKind pass) const;
  int index_of(const nn::Unit& unit) const;
  // Where a block begins and ends that is needed from, or until, a moment.
  PassPoint begin(int moment) const;
  PassPoint end(int moment) const;
};
// `recomputed_until` by unit.
UnitOrder unit_order(UnitList units, const std::vector<int>& recomputed_until,
                     const ParamGroups& groups);

// A group's weights, whole for some moments.
struct WeightHold {
  int group = 0;
  int read = 0;      // the moment at which this rank's part begins to come from its file
  int gathered = 0;  // and the gather begins
  int first = 0;     // needed first, and last
  int last = 0;
};

struct GatherOptions {
  int prefetch = 1;  // moments ahead
  bool reshard_after_forward = true;
};

// In the order in which their gathers begin. A group is not let go that would be gathered again at
// once. `is_cut` by group: the others are there anyway.
std::vector<WeightHold> weight_holds(const UnitOrder& units, const std::vector<bool>& is_cut,
                                     const nn::PassOrder& order, const GatherOptions& options);

// A group's gradients, whole while units add to them: from the first of these in backward to the
// last. In the order in which they begin.
struct GradientHold {
  int group = 0;
  int first = 0;
  int last = 0;
};
std::vector<GradientHold> gradient_holds(const UnitOrder& units);

}  // namespace phalanx
