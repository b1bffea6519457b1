#pragma once
// Runs the lists of a schedule in simulated time: each pass begins as soon as its rank is free and
// its inputs are there. The simulator, the lowering, the verifier and the costs of orders are built
// on it. The work is linear in the number of passes.

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "phalanx/pipeline/schedule.h"
#include "phalanx/pipeline/timekeeper.h"

namespace phalanx {

// The result of a pass for other passes: an activation or an input gradient.
struct PassResult {
  Payload payload = Payload::kActivation;
  int direction = 0;
  int stage = 0;
  int microbatch = 0;
};

class Replay {
 public:
  // Whether a pair of a forward and a backward pass is one piece of work (kAtomic): it begins when
  // the inputs of both are there, and the results of both are there at its end.
  enum class Pairs : std::uint8_t { kApart, kAtomic };

  // The schedule must outlive this, and have no pass outside its chunks and microbatches.
  Replay(const Schedule& schedule, const Costs& costs, Pairs pairs = Pairs::kApart)
      : schedule_(schedule),
        pairs_(pairs),
        message_(costs.message()),
        microbatches_(static_cast<std::size_t>(schedule.microbatches_of(0))),
        results_(2 * static_cast<std::size_t>(schedule.placement.directions()) *
                 static_cast<std::size_t>(schedule.placement.stages()) * microbatches_),
        ranks_(schedule.ranks.size()),
        timekeeper_(schedule.ranks.size()) {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) add_chunks(rank, costs);
  }

  // Calls on_pass(rank, index in its list, begin, end) for every pass: those of a rank in order,
  // and each after those that it reads from. Returns whether all lists were completed.
  template <typename OnPass>
  bool run(OnPass on_pass) {
    timekeeper_.run([&](std::size_t rank, double /*time*/) { run_rank(rank, on_pass); });
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (position(rank) < schedule_.ranks[rank].size()) return false;
    }
    return true;
  }

  // After run(): the place where a rank stopped, and the input that its pass waits for.
  std::size_t position(std::size_t rank) const { return ranks_[rank].position; }
  std::optional<PassResult> awaited(std::size_t rank) const {
    const auto& list = schedule_.ranks[rank];
    const std::span<const Action> work = work_at(list, position(rank));
    for (const Action& action : work) {
      for (const Input& input : inputs(rank, action)) {
        if (input.exists && !results_[input.result].has_happened()) return named(input.result);
      }
    }
    return std::nullopt;
  }

 private:
  struct Input {
    bool exists = false;
    std::size_t result = 0;
    double delay = 0.0;
  };
  struct ChunkState {
    StageCosts costs;
    std::size_t first_result = 0;  // the activation of microbatch 0
    bool is_first = false;
    bool is_last = false;
    double from_previous = 0.0;  // the time of a message from the neighbouring stage
    double from_next = 0.0;
  };
  struct ReplayedRank {
    std::vector<ChunkState> chunks;
    std::size_t position = 0;
  };

  void add_chunks(std::size_t rank, const Costs& costs) {
    const Placement& placement = schedule_.placement;
    for (int chunk = 0; chunk < placement.chunks(); ++chunk) {
      const int stage = placement.stage(static_cast<int>(rank), chunk);
      const int direction = placement.direction(chunk);
      const auto message_from = [&](int other) {
        return placement.rank(other, direction) == static_cast<int>(rank) ? 0.0 : message_;
      };
      ChunkState state{
          .costs = costs.stage(stage),
          .first_result =
              static_cast<std::size_t>(direction * placement.stages() + stage) * microbatches_,
          .is_first = stage == 0,
          .is_last = stage + 1 == placement.stages()};
      if (!state.is_first) state.from_previous = message_from(stage - 1);
      if (!state.is_last) state.from_next = message_from(stage + 1);
      ranks_[rank].chunks.push_back(state);
    }
  }

  std::size_t gradients() const { return results_.size() / 2; }
  PassResult named(std::size_t result) const {
    const bool gradient = result >= gradients();
    const std::size_t rest = gradient ? result - gradients() : result;
    const auto column = static_cast<int>(rest / microbatches_);
    const int stages = schedule_.placement.stages();
    return {gradient ? Payload::kGradient : Payload::kActivation, column / stages, column % stages,
            static_cast<int>(rest % microbatches_)};
  }

  const ChunkState& chunk_of(std::size_t rank, const Action& action) const {
    return ranks_[rank].chunks[static_cast<std::size_t>(action.chunk)];
  }

  std::array<Input, 2> inputs(std::size_t rank, const Action& action) const {
    const ChunkState& chunk = chunk_of(rank, action);
    const std::size_t own = chunk.first_result + static_cast<std::size_t>(action.microbatch);
    switch (action.kind) {
      case ActionKind::kForward:
        return {Input{!chunk.is_first, own - microbatches_, chunk.from_previous}, Input{}};
      case ActionKind::kBackward:
      case ActionKind::kBackwardInput:
        return {Input{true, own, 0.0},
                Input{!chunk.is_last, gradients() + own + microbatches_, chunk.from_next}};
      case ActionKind::kBackwardWeight:
        return {Input{true, gradients() + own, 0.0}, Input{}};
      default:
        return {};
    }
  }

  // The actions that begin together: one, or a pair.
  std::span<const Action> work_at(const std::vector<Action>& list, std::size_t position) const {
    const bool pair = pairs_ == Pairs::kAtomic && list[position].paired;
    return {list.data() + position, pair ? 2U : 1U};
  }

  // When the actions can begin. Nothing if an input is missing: the rank then waits for it.
  std::optional<double> begin_of(std::size_t rank, std::span<const Action> work) {
    double begin = timekeeper_.now(rank);
    for (const Action& action : work) {
      for (const Input& input : inputs(rank, action)) {
        if (!input.exists) continue;
        TimedEvent& result = results_[input.result];
        if (!result.has_happened()) {
          timekeeper_.wait(rank, result);
          return std::nullopt;
        }
        begin = std::max(begin, result.time + input.delay);
      }
    }
    return begin;
  }

  void publish(std::size_t rank, const Action& action, double end) {
    if (action.kind == ActionKind::kBackwardWeight) return;
    std::size_t result =
        chunk_of(rank, action).first_result + static_cast<std::size_t>(action.microbatch);
    if (action.kind != ActionKind::kForward) result += gradients();
    timekeeper_.happen(results_[result], end);
  }

  template <typename OnPass>
  void run_rank(std::size_t rank, OnPass& on_pass) {
    const std::vector<Action>& list = schedule_.ranks[rank];
    ReplayedRank& state = ranks_[rank];
    while (state.position < list.size()) {
      if (!is_pass(list[state.position].kind)) {
        ++state.position;
        continue;
      }
      const std::span<const Action> work = work_at(list, state.position);
      const std::optional<double> begin = begin_of(rank, work);
      if (!begin) return;
      double end = *begin;
      for (const Action& action : work) end += chunk_of(rank, action).costs.of(action.kind);
      for (const Action& action : work) {
        on_pass(rank, state.position++, *begin, end);
        publish(rank, action, end);
      }
      timekeeper_.now(rank) = end;
    }
  }

  const Schedule& schedule_;
  Pairs pairs_;
  double message_;
  std::size_t microbatches_;
  // Results are numbered by (payload, direction, stage, microbatch).
  std::vector<TimedEvent> results_;
  std::vector<ReplayedRank> ranks_;
  Timekeeper timekeeper_;
};

}  // namespace phalanx
