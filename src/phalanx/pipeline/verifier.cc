#include "phalanx/pipeline/verifier.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/pipeline/replay.h"
#include "phalanx/pipeline/simulator.h"

namespace phalanx {
namespace {

std::size_t index(int value) { return static_cast<std::size_t>(value); }

// Checks the list of one rank by itself: it is complete, in a possible order, and its weights are
// kept.
class RankVerifier {
 public:
  RankVerifier(const Schedule& schedule, int rank)
      : schedule_(schedule),
        rank_(rank),
        microbatches_(schedule.microbatches_of(0)),
        progress_(index(schedule.placement.chunks()) * index(microbatches_)),
        accumulated_(index(schedule.placement.chunks())) {}

  void run() {
    const std::vector<Action>& list = schedule_.ranks[index(rank_)];
    for (std::size_t i = 0; i < list.size(); ++i) {
      check_bounds(list[i]);
      check_pair(list[i], i + 1 < list.size() ? &list[i + 1] : nullptr);
      check(list[i]);
    }
    check_complete();
  }

 private:
  // How far one (chunk, microbatch) has come.
  struct Progress {
    bool forward = false;
    bool input_gradient = false;
    bool weight_gradient = false;
    int version = 0;  // that the forward pass read
  };
  // The weight gradients of a chunk since the last update.
  struct Accumulated {
    int microbatches = 0;
    bool reduced = false;
  };

  void require(bool holds, const Action& action, std::string_view fault) const {
    if (holds) return;
    throw ConfigError("schedule {}: {} of rank {} {}", schedule_.kind,
                      pass_name(action, schedule_.placement), rank_, fault);
  }

  int microbatches_of(int chunk) const {
    return schedule_.microbatches_of(schedule_.placement.direction(chunk));
  }
  int microbatches_per_update(int chunk) const {
    return schedule_.update == UpdateRule::kFlush ? microbatches_of(chunk)
                                                  : schedule_.microbatches_per_update;
  }
  Progress& at(int chunk, int microbatch) {
    return progress_[index(chunk) * index(microbatches_) + index(microbatch)];
  }

  void check_bounds(const Action& action) const {
    const bool inside = action.chunk >= 0 && action.chunk < schedule_.placement.chunks() &&
                        action.microbatch >= 0 && action.microbatch < microbatches_of(action.chunk);
    if (inside) return;
    throw ConfigError("schedule {}: {} of rank {} is outside its {} chunks and {} microbatches",
                      schedule_.kind, to_string(action), rank_, schedule_.placement.chunks(),
                      microbatches_);
  }

  void check_pair(const Action& action, const Action* next) const {
    if (!action.paired) return;
    require(action.kind == ActionKind::kForward && next != nullptr &&
                next->kind == ActionKind::kBackward && !next->paired,
            action, "is paired with no backward pass");
  }

  void check(const Action& action) {
    require(!is_message(action.kind), action, "is a message, which only programs have");
    require(!schedule_.forward_only || action.kind == ActionKind::kForward, action,
            "is in a schedule of forward passes alone");
    switch (action.kind) {
      case ActionKind::kForward:
        return check_forward(action);
      case ActionKind::kBackward:
      case ActionKind::kBackwardInput:
      case ActionKind::kBackwardWeight:
        return check_backward(action);
      case ActionKind::kReduceGradients:
        return check_reduction(action);
      case ActionKind::kOptimizerStep:
        return check_step(action);
      case ActionKind::kGatherParameters:
        return require(updates_ > 0, action, "comes before any update");
      default:
        return;
    }
  }

  void check_forward(const Action& action) {
    Progress& progress = at(action.chunk, action.microbatch);
    require(!progress.forward, action, "runs twice");
    if (action.version < 0 || action.version > updates_) {
      throw ConfigError("schedule {}: {} of rank {} reads weight version {} after {} updates",
                        schedule_.kind, pass_name(action, schedule_.placement), rank_,
                        action.version, updates_);
    }
    progress.forward = true;
    progress.version = action.version;
  }

  void check_backward(const Action& action) {
    Progress& progress = at(action.chunk, action.microbatch);
    require(progress.forward, action, "comes before its forward pass");
    require(progress.version == action.version, action,
            "reads another weight version than its forward pass");
    if (makes_input_gradient(action.kind)) {
      require(!progress.input_gradient, action, "runs twice");
      progress.input_gradient = true;
    }
    if (adds_weight_gradient(action.kind)) {
      require(progress.input_gradient, action, "comes before its input gradient");
      require(!progress.weight_gradient, action, "runs twice");
      progress.weight_gradient = true;
      Accumulated& accumulated = accumulated_[index(action.chunk)];
      require(!accumulated.reduced, action, "comes between the reduction and the update");
      ++accumulated.microbatches;
    }
  }

  void check_reduction(const Action& action) {
    Accumulated& accumulated = accumulated_[index(action.chunk)];
    require(!accumulated.reduced, action, "runs twice");
    require(accumulated.microbatches == microbatches_per_update(action.chunk), action,
            "does not come behind the last weight gradient of the update");
    accumulated.reduced = true;
  }

  void check_step(const Action& action) {
    require(std::ranges::all_of(accumulated_, &Accumulated::reduced), action,
            "comes before all gradients are reduced");
    require(action.version == ++updates_, action, "does not make the next weight version");
    std::ranges::fill(accumulated_, Accumulated{});
  }

  void check_complete() {
    for (int chunk = 0; chunk < schedule_.placement.chunks(); ++chunk) {
      for (int m = 0; m < microbatches_of(chunk); ++m) {
        const Progress& progress = at(chunk, m);
        check_present(progress.forward, ActionKind::kForward, chunk, m);
        if (schedule_.forward_only) continue;
        check_present(progress.input_gradient, ActionKind::kBackwardInput, chunk, m);
        check_present(progress.weight_gradient, ActionKind::kBackwardWeight, chunk, m);
      }
      if (accumulated_[index(chunk)].microbatches == 0) continue;
      throw ConfigError("schedule {}: rank {} ends with weight gradients that no update reads",
                        schedule_.kind, rank_);
    }
  }

  void check_present(bool present, ActionKind kind, int chunk, int microbatch) const {
    if (present) return;
    throw ConfigError("schedule {}: rank {} never runs {}", schedule_.kind, rank_,
                      pass_name(pass(kind, chunk, microbatch), schedule_.placement));
  }

  const Schedule& schedule_;
  int rank_;
  int microbatches_;
  std::vector<Progress> progress_;  // by (chunk, microbatch)
  std::vector<Accumulated> accumulated_;
  int updates_ = 0;
};

// "B0.0 of stage 1 on rank 1": the pass that makes the result, as it stands in its rank's list.
std::string maker_of(const Schedule& schedule, const PassResult& result) {
  const int rank = schedule.placement.rank(result.stage, result.direction);
  const int chunk = schedule.placement.chunk(result.stage, result.direction);
  const auto makes = [&](const Action& action) {
    const bool kind = result.payload == Payload::kActivation ? action.kind == ActionKind::kForward
                                                             : makes_input_gradient(action.kind);
    return kind && action.chunk == chunk && action.microbatch == result.microbatch;
  };
  const auto& list = schedule.ranks[index(rank)];
  return fmt::format("{} of stage {} on rank {}",
                     pass_name(*std::ranges::find_if(list, makes), schedule.placement),
                     result.stage, rank);
}

// Checks that no ranks wait for each other. The lists must be complete.
void verify_progress(const Schedule& schedule) {
  Replay replay(schedule, Costs{});
  if (replay.run([](auto... /*pass*/) {})) return;
  std::vector<std::string> stuck;
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    const auto& list = schedule.ranks[rank];
    if (replay.position(rank) == list.size()) continue;
    stuck.push_back(fmt::format("rank {} is stuck at {}, which waits for {}", rank,
                                pass_name(list[replay.position(rank)], schedule.placement),
                                maker_of(schedule, *replay.awaited(rank))));
  }
  throw ConfigError("schedule {}: {}", schedule.kind, fmt::join(stuck, "; "));
}

int allowed_versions(const Schedule& schedule, const VerifierLimits& limits, int rank) {
  if (limits.weight_versions > 0) return limits.weight_versions;
  switch (schedule.update) {
    case UpdateRule::kFlush:
      return 1;
    case UpdateRule::kPerMicrobatch:
      return schedule.placement.ranks() - rank;
    case UpdateRule::kDoubleBuffered:
      return 2;
  }
  return 1;
}

// Two versions suffice, and exist in time, if an update takes at least as many microbatches as the
// first rank has in flight.
void verify_double_buffering(const Schedule& schedule) {
  const int in_flight = std::min(schedule.placement.ranks(), schedule.microbatches);
  if (schedule.microbatches_per_update >= in_flight) return;
  throw ConfigError(
      "schedule {}: rank 0 has {} microbatches in flight, and {} per update: with two weight "
      "versions an update needs at least as many",
      schedule.kind, in_flight, schedule.microbatches_per_update);
}

void verify_versions(const Schedule& schedule, const VerifierLimits& limits) {
  if (schedule.update == UpdateRule::kDoubleBuffered && limits.weight_versions == 0) {
    verify_double_buffering(schedule);
  }
  for (int rank = 0; rank < schedule.placement.ranks(); ++rank) {
    const int versions = live_weight_versions(schedule, rank);
    const int allowed = allowed_versions(schedule, limits, rank);
    if (versions <= allowed) continue;
    throw ConfigError("schedule {}: rank {} needs {} weight versions at once, {} are allowed",
                      schedule.kind, rank, versions, allowed);
  }
}

void verify_activations(const Schedule& schedule, const VerifierLimits& limits) {
  if (!limits.activations) return;
  // Parts of activations are not exact numbers.
  constexpr double kRounding = 1e-9;
  const std::vector<double> peaks = peak_activations(schedule, limits.kept);
  for (std::size_t rank = 0; rank < peaks.size(); ++rank) {
    if (peaks[rank] <= *limits.activations + kRounding) continue;
    throw ConfigError(
        "schedule {}: rank {} holds the activations of {} chunks and microbatches at once, the "
        "limit is {}",
        schedule.kind, rank, peaks[rank], *limits.activations);
  }
}

// The first two `chosen` passes whose microbatches are not in order.
struct Swap {
  int first = 0;
  int second = 0;
};
template <typename Chosen>
std::optional<Swap> first_swap(const std::vector<Action>& list, Chosen chosen) {
  int last = -1;
  for (const Action& action : list) {
    if (!chosen(action)) continue;
    if (action.microbatch < last) return Swap{last, action.microbatch};
    last = action.microbatch;
  }
  return std::nullopt;
}

// The first microbatch whose first pass on a rank comes after that of a later one.
std::optional<int> first_late_microbatch(const std::vector<Action>& list) {
  int begun = 0;
  for (const Action& action : list) {
    if (!is_pass(action.kind) || action.microbatch < begun) continue;
    if (action.microbatch > begun) return begun;
    ++begun;
  }
  return std::nullopt;
}

}  // namespace

void verify(const Schedule& schedule, const VerifierLimits& limits) {
  PHALANX_CHECK(schedule.ranks.size() == index(schedule.placement.ranks()),
                "schedule {}: {} lists for {} ranks", schedule.kind, schedule.ranks.size(),
                schedule.placement.ranks());
  for (int rank = 0; rank < schedule.placement.ranks(); ++rank) RankVerifier(schedule, rank).run();
  verify_progress(schedule);
  verify_versions(schedule, limits);
  verify_activations(schedule, limits);
}

std::optional<std::string> training_obstacle(const Schedule& schedule) {
  const Placement& placement = schedule.placement;
  if (placement.directions() > 1) return "it has two copies of the model";
  for (int rank = 0; rank < placement.ranks(); ++rank) {
    for (int chunk = 0; chunk < placement.chunks(); ++chunk) {
      const auto swap = first_swap(schedule.ranks[index(rank)], [&](const Action& action) {
        return adds_weight_gradient(action.kind) && action.chunk == chunk;
      });
      if (!swap) continue;
      return fmt::format(
          "it adds the weight gradients of chunk {} of rank {} in another order than the "
          "microbatches': {} before {}",
          chunk, rank, swap->first, swap->second);
    }
  }
  const int last = placement.stages() - 1;
  const int rank = placement.rank(last);
  const auto swap = first_swap(schedule.ranks[index(rank)], [&](const Action& action) {
    return action.kind == ActionKind::kForward && action.chunk == placement.chunk(last);
  });
  if (swap) {
    return fmt::format(
        "it adds the losses on rank {} in another order than the microbatches': {} before {}", rank,
        swap->first, swap->second);
  }
  for (int reader = 0; reader < placement.ranks(); ++reader) {
    if (const auto late = first_late_microbatch(schedule.ranks[index(reader)])) {
      return fmt::format(
          "rank {} begins with microbatch {} after later ones, and data comes as a stream", reader,
          *late);
    }
  }
  return std::nullopt;
}

int live_weight_versions(const Schedule& schedule, int rank) {
  const std::vector<Action>& list = schedule.ranks[index(rank)];
  const auto newest_ever = std::ranges::max_element(list, {}, &Action::version);
  const int versions = newest_ever == list.end() ? 1 : newest_ever->version + 1;
  std::vector<std::size_t> last_reader(index(versions), 0);
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (is_pass(list[i].kind)) last_reader[index(list[i].version)] = i;
  }
  std::vector<bool> alive(index(versions), false);
  int count = 0;
  const auto set = [&](int version, bool is_alive) {
    if (alive[index(version)] == is_alive) return;
    alive[index(version)] = is_alive;
    count += is_alive ? 1 : -1;
  };
  int newest = 0;
  set(newest, true);
  int most = count;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const int version = list[i].version;
    if (is_pass(list[i].kind)) {
      set(version, true);
      most = std::max(most, count);
      if (last_reader[index(version)] == i && version != newest) set(version, false);
    } else if (list[i].kind == ActionKind::kOptimizerStep) {
      if (last_reader[index(newest)] < i) set(newest, false);
      newest = version;
      set(newest, true);
      most = std::max(most, count);
    }
  }
  return most;
}

}  // namespace phalanx
