#include "phalanx/cli/time_flags.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <span>

#include "phalanx/base/error.h"
#include "phalanx/base/file.h"
#include "phalanx/clock/machine.h"
#include "phalanx/planner/memory_bars.h"
#include "phalanx/settings/config_views.h"
#include "phalanx/timelines/timeline_drawing.h"

namespace phalanx {
namespace {

ProductType product_type_named(const std::string& name) {
  return *std::ranges::find_if(kProductTypes,
                               [&](ProductType type) { return name_of(type) == name; });
}

}  // namespace

void TimeFlags::add_to(FlagSet& flags) {
  flags.add({.name = "--stack",
             .help = "How long a step takes that other software does, which hides other traffic "
                     "and moves other bytes; not given: Phalanx's own",
             .choices = kSoftwareStackNames,
             .needs = "--cluster"},
            &stack);
  flags.add({.name = "--products-type",
             .help = "What layers multiply, in a prediction; not given: the type of their tensors",
             .choices = kProductTypeNames,
             .needs = "--cluster"},
            &products_type);
  flags.add({.name = "--step-timeline",
             .help = "When each rank of a pipeline is predicted to do its passes: a picture "
                     "(.svg), text (.txt) or a trace for Perfetto and Chrome (.json)",
             .value_name = "FILE",
             .needs = "--cluster",
             .excludes = "--compare"},
            &step_timeline);
  flags.add({.name = "--tokens",
             .help = "How long, and how dear, training with so many tokens is",
             .range = above(0.0),
             .needs = "--cluster"},
            &tokens);
}

StepPrediction TimeFlags::predict(const RunPlan& plan) const {
  PredictedProgram program;
  if (!stack.empty()) program.stack = &software_stack(stack);
  if (!products_type.empty()) program.products_type = product_type_named(products_type);
  return predict_step(plan, machine_of(cluster), program);
}

std::string TimeFlags::text_of(const RunPlan& plan, const StepPrediction& prediction) const {
  if (tokens <= 0.0) return to_text(prediction);
  const BatchSchedule batches = batch_schedule(plan.config);
  if (batches.smallest() == batches.last()) return to_text(prediction, tokens);
  return to_text(prediction, tokens,
                 fmt::format(" in steps of the last batch, {} samples: smaller ones before it take "
                             "longer for as many tokens",
                             batches.last()));
}

void TimeFlags::draw(const RunPlan& plan, const StepPrediction& prediction) const {
  if (step_timeline.empty()) return;
  constexpr double kMilliseconds = 1e3;
  TimelinePicture picture{
      .title = fmt::format("predicted on {}: {}", prediction.machine, model_words(plan)),
      .placement = plan.placement,
      .timeline = prediction.timeline,
      .unit = "ms",
      .footer =
          fmt::format("a step takes {:.4g} s; ranks are idle between passes for {:.1f} %",
                      prediction.seconds, 100.0 * measure(prediction.timeline).idle_fraction)};
  for (std::vector<TimedAction>& passes : picture.timeline) {
    for (TimedAction& pass : passes) {
      pass.begin *= kMilliseconds;
      pass.end *= kMilliseconds;
    }
  }
  const std::span<const TimelinePicture> pictures(&picture, 1);
  const std::string ending = std::filesystem::path(step_timeline).extension().string();
  if (ending == ".svg") {
    write_file_durably(step_timeline, to_svg(pictures));
  } else if (ending == ".txt") {
    write_file_durably(step_timeline, to_text(picture));
  } else if (ending == ".json") {
    write_file_durably(step_timeline, to_chrome_trace(pictures, 1.0 / kMilliseconds));
  } else {
    throw UsageError("--step-timeline {}: name a file that ends with .svg, .txt or .json",
                     step_timeline);
  }
}

}  // namespace phalanx
