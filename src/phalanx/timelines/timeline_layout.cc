#include "phalanx/timelines/timeline_layout.h"

#include <algorithm>
#include <limits>

#include "phalanx/base/error.h"

namespace phalanx {
namespace {

// In increasing order.
std::vector<double> pass_times(const TimelinePicture& picture) {
  std::vector<double> times;
  for (const auto& row : picture.timeline) {
    for (const TimedAction& timed : row) {
      if (is_pass(timed.action.kind) && timed.end > timed.begin) {
        times.push_back(timed.end - timed.begin);
      }
    }
  }
  std::sort(times.begin(), times.end());
  return times;
}

}  // namespace

Stack stack_of(const TimelinePicture& picture, std::size_t rank) {
  if (picture.split == 0) return Stack::kOnly;
  const int stage = picture.placement.stage(static_cast<int>(rank), 0);
  return stage < picture.split ? Stack::kEncoder : Stack::kDecoder;
}

std::string_view name_of(Stack stack) {
  if (stack == Stack::kOnly) return "";
  return stack == Stack::kEncoder ? "encoder" : "decoder";
}

std::vector<double> row_origins(const TimelinePicture& picture) {
  constexpr double kNone = std::numeric_limits<double>::infinity();
  std::vector<double> origins;
  for (const auto& row : picture.timeline) {
    double begin = kNone;
    for (const TimedAction& timed : row) begin = std::min(begin, timed.begin);
    origins.push_back(begin);
  }
  double first = kNone;
  for (const double origin : origins) first = std::min(first, origin);
  if (first == kNone) first = 0.0;
  for (double& origin : origins) {
    if (!picture.aligned_to_first || origin == kNone) origin = first;
  }
  return origins;
}

double picture_length(const TimelinePicture& picture) {
  const std::vector<double> origins = row_origins(picture);
  double length = 0.0;
  for (std::size_t rank = 0; rank < picture.timeline.size(); ++rank) {
    for (const TimedAction& timed : picture.timeline[rank]) {
      length = std::max(length, timed.end - origins[rank]);
    }
  }
  return length;
}

double shortest_pass(const TimelinePicture& picture) {
  const auto times = pass_times(picture);
  return times.empty() ? 1.0 : times.front();
}

double median_pass(const TimelinePicture& picture) {
  const auto times = pass_times(picture);
  return times.empty() ? 1.0 : times[times.size() / 2];
}

int last_microbatch(const TimelinePicture& picture) {
  int last = 0;
  for (const auto& row : picture.timeline) {
    for (const TimedAction& timed : row) last = std::max(last, timed.action.microbatch);
  }
  return last;
}

std::vector<HeldActivations> held_activations(const std::vector<TimedAction>& row) {
  std::vector<HeldActivations> levels;
  HeldActivations now;
  for (const TimedAction& timed : row) {
    if (!is_pass(timed.action.kind)) continue;
    const bool is_forward = timed.action.kind == ActionKind::kForward;
    now.time = is_forward ? timed.begin : timed.end;
    if (is_forward) {
      ++now.until_input_gradient;
      ++now.until_weight_gradient;
    }
    if (makes_input_gradient(timed.action.kind)) --now.until_input_gradient;
    if (adds_weight_gradient(timed.action.kind)) --now.until_weight_gradient;
    levels.push_back(now);
  }
  return levels;
}

HeldActivations most_held(const std::vector<HeldActivations>& held) {
  HeldActivations most;
  for (const HeldActivations& level : held) {
    most.until_input_gradient = std::max(most.until_input_gradient, level.until_input_gradient);
    most.until_weight_gradient = std::max(most.until_weight_gradient, level.until_weight_gradient);
  }
  return most;
}

std::string_view description_of(ActionKind pass) {
  PHALANX_CHECK(is_pass(pass), "action {} is no pass", static_cast<int>(pass));
  switch (pass) {
    case ActionKind::kForward:
      return "F forward";
    case ActionKind::kBackward:
      return "B backward";
    case ActionKind::kBackwardInput:
      return "b input gradient";
    default:
      return "w weight gradient";
  }
}

}  // namespace phalanx
