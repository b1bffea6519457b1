#pragma once
// Flags of `phalanx plan` that ask how long a step takes.

#include <string>

#include "phalanx/flags/flag_set.h"
#include "phalanx/planner/step_time.h"

namespace phalanx {

struct TimeFlags {
  std::string cluster;  // --cluster, which is a flag of runs, too
  std::string stack;
  std::string products_type;
  std::string step_timeline;
  double tokens = 0.0;

  // This must stay where it is while the flags are read.
  void add_to(FlagSet& flags);
  bool given() const { return !cluster.empty(); }
  StepPrediction predict(const RunPlan& plan) const;
  std::string text_of(const RunPlan& plan, const StepPrediction& prediction) const;
  // Writes --step-timeline, if it is given, in the form that the file's ending names.
  void draw(const RunPlan& plan, const StepPrediction& prediction) const;
};

}  // namespace phalanx
