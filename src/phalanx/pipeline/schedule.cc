#include "phalanx/pipeline/schedule.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "phalanx/base/error.h"

namespace phalanx {
namespace {

// Inserts a chunk's reduction after its last weight gradient before an update, and the update after
// the last one of the rank.
std::vector<Action> with_updates(const std::vector<Action>& passes, const Placement& placement,
                                 const Schedule& schedule) {
  const auto chunks = static_cast<std::size_t>(placement.chunks());
  std::vector<int> gradients(chunks, 0);
  const auto batch_of = [&](int chunk) {
    return schedule.update == UpdateRule::kFlush
               ? schedule.microbatches_of(placement.direction(chunk))
               : schedule.microbatches_per_update;
  };
  std::vector<Action> actions;
  // Most kinds need few more actions; PipeDream has three after every backward pass.
  actions.reserve(passes.size() * (schedule.update == UpdateRule::kPerMicrobatch ? 3 : 1) + chunks +
                  2);
  std::size_t reduced = 0;
  int version = 0;
  for (const Action& action : passes) {
    actions.push_back(action);
    if (!adds_weight_gradient(action.kind)) continue;
    if (++gradients[static_cast<std::size_t>(action.chunk)] % batch_of(action.chunk) != 0) continue;
    actions.push_back({.kind = ActionKind::kReduceGradients, .chunk = action.chunk});
    if (++reduced < chunks) continue;
    reduced = 0;
    actions.push_back({.kind = ActionKind::kOptimizerStep, .version = ++version});
    actions.push_back({.kind = ActionKind::kGatherParameters});
  }
  return actions;
}

}  // namespace

std::string pass_name(const Action& action, const Placement& placement) {
  if (placement.directions() == 1) return to_string(action);
  Action shown = action;
  shown.chunk = 0;
  return to_string(shown) + (placement.direction(action.chunk) == 0 ? "d" : "u");
}

const ScheduleKind& schedule_kind(std::string_view name) {
  std::vector<std::string_view> names;
  for (const ScheduleKind& kind : schedule_kinds()) {
    if (kind.name == name) return kind;
    names.push_back(kind.name);
  }
  throw ConfigError("there is no schedule \"{}\": choose one of {}", name, fmt::join(names, ", "));
}

void check_split(const ScheduleKind& kind) {
  if (kind.split_obstacle.empty()) return;
  std::vector<std::string_view> names;
  for (const ScheduleKind& other : schedule_kinds()) {
    if (other.split_obstacle.empty()) names.push_back(other.name);
  }
  throw ConfigError("schedule {} cannot run an encoder and a decoder: {}; choose one of {}",
                    kind.name, kind.split_obstacle, fmt::join(names, ", "));
}

Schedule make_schedule(std::string_view name, const ScheduleRequest& request) {
  const ScheduleKind& kind = schedule_kind(name);
  if (request.ranks < 1 || request.microbatches < 1) {
    throw ConfigError("schedule {}: {} ranks and {} microbatches must be at least 1", name,
                      request.ranks, request.microbatches);
  }
  if (request.split != 0) {
    check_split(kind);
    if (request.split < 0 || request.split >= request.ranks) {
      throw ConfigError("a decoder from rank {} on of {}: must be from 1 to {}", request.split,
                        request.ranks, request.ranks - 1);
    }
  }
  Schedule schedule{.kind = std::string(name),
                    .placement = kind.placement(request),
                    .microbatches = request.microbatches,
                    .update = kind.update,
                    .microbatches_per_update = request.microbatches,
                    .split = request.split,
                    .ranks = {}};
  if (request.split != 0 && schedule.placement.chunks() != 1) {
    throw ConfigError("an encoder and a decoder have 1 chunk on every rank, not {}",
                      schedule.placement.chunks());
  }
  if (kind.update == UpdateRule::kPerMicrobatch) schedule.microbatches_per_update = 1;
  if (kind.update == UpdateRule::kDoubleBuffered) {
    schedule.microbatches_per_update =
        request.microbatches_per_update > 0 ? request.microbatches_per_update : request.ranks;
  }
  schedule.ranks = kind.passes(request, schedule.placement);
  for (std::vector<Action>& list : schedule.ranks) {
    list = with_updates(list, schedule.placement, schedule);
  }
  return schedule;
}

}  // namespace phalanx
