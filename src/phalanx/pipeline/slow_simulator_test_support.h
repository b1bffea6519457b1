#pragma once
// Slow and simple simulators, with which tests compare the real one.

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "phalanx/pipeline/schedule.h"

namespace phalanx {

// The time when the last rank is done; nothing if ranks wait for each other. Sweeps over all ranks
// until none can continue.
class SlowSimulator {
 public:
  SlowSimulator(const Schedule& schedule, const Costs& costs)
      : schedule_(schedule), costs_(costs) {}

  std::optional<double> makespan() {
    std::vector<std::size_t> positions(schedule_.ranks.size(), 0);
    std::vector<double> free(schedule_.ranks.size(), 0.0);
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t rank = 0; rank < positions.size(); ++rank) {
        if (positions[rank] == schedule_.ranks[rank].size()) continue;
        const Action& action = schedule_.ranks[rank][positions[rank]];
        if (is_pass(action.kind) && !run(static_cast<int>(rank), action, free[rank])) continue;
        ++positions[rank];
        moved = true;
      }
    }
    for (std::size_t rank = 0; rank < positions.size(); ++rank) {
      if (positions[rank] < schedule_.ranks[rank].size()) return std::nullopt;
    }
    return *std::ranges::max_element(free);
  }

 private:
  using Key =
      std::tuple<ActionKind, int, int, int>;  // forward or not, direction, stage, microbatch

  bool run(int rank, const Action& action, double& free) {
    const Placement& placement = schedule_.placement;
    const int stage = placement.stage(rank, action.chunk);
    const int direction = placement.direction(action.chunk);
    const auto key = [&](ActionKind kind, int at) {
      return Key{kind, direction, at, action.microbatch};
    };
    std::vector<Key> reads;
    if (action.kind == ActionKind::kForward) {
      if (stage > 0) reads.push_back(key(ActionKind::kForward, stage - 1));
    } else if (action.kind == ActionKind::kBackwardWeight) {
      reads.push_back(key(ActionKind::kBackward, stage));
    } else {
      reads.push_back(key(ActionKind::kForward, stage));
      if (stage + 1 < placement.stages()) reads.push_back(key(ActionKind::kBackward, stage + 1));
    }
    double begin = free;
    for (const Key& read : reads) {
      if (!ends_.contains(read)) return false;
      const bool sent = placement.rank(std::get<2>(read), direction) != rank;
      begin = std::max(begin, ends_[read] + (sent ? costs_.message() : 0.0));
    }
    free = begin + costs_.stage(stage).of(action.kind);
    if (action.kind == ActionKind::kForward) ends_[key(ActionKind::kForward, stage)] = free;
    if (makes_input_gradient(action.kind)) ends_[key(ActionKind::kBackward, stage)] = free;
    return true;
  }

  const Schedule& schedule_;
  const Costs& costs_;
  std::map<Key, double> ends_;
};

// The same for programs: passes wait only for the receives and hand-overs before them.
inline std::optional<double> makespan_of_programs(const std::vector<Program>& programs,
                                                  const Schedule& schedule, const Costs& costs) {
  using Message = std::tuple<Payload, int, int>;  // source stage, microbatch
  using Reader = std::tuple<Payload, int, int>;   // chunk, microbatch
  std::map<Message, double> sent;
  std::vector<std::map<Reader, double>> arrived(programs.size());
  std::vector<std::size_t> positions(programs.size(), 0);
  std::vector<double> free(programs.size(), 0.0);
  const auto run = [&](std::size_t rank, const Action& action) {
    if (action.kind == ActionKind::kSend) {
      sent[{action.payload, action.source_stage, action.microbatch}] = free[rank];
    } else if (action.kind == ActionKind::kHandOver) {
      arrived[rank][{action.payload, action.peer, action.microbatch}] = free[rank];
    } else if (action.kind == ActionKind::kReceive) {
      const auto found = sent.find({action.payload, action.source_stage, action.microbatch});
      if (found == sent.end()) return false;
      arrived[rank][{action.payload, action.chunk, action.microbatch}] =
          found->second + costs.message();
    } else if (is_pass(action.kind)) {
      const int stage = schedule.placement.stage(static_cast<int>(rank), action.chunk);
      const Payload payload =
          action.kind == ActionKind::kForward ? Payload::kActivation : Payload::kGradient;
      const auto found = arrived[rank].find({payload, action.chunk, action.microbatch});
      const bool reads = action.kind != ActionKind::kBackwardWeight && found != arrived[rank].end();
      if (reads) free[rank] = std::max(free[rank], found->second);
      free[rank] += costs.stage(stage).of(action.kind);
    }
    return true;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t rank = 0; rank < programs.size(); ++rank) {
      const auto& list = programs[rank].actions;
      if (positions[rank] == list.size() || !run(rank, list[positions[rank]])) continue;
      ++positions[rank];
      moved = true;
    }
  }
  for (std::size_t rank = 0; rank < programs.size(); ++rank) {
    if (positions[rank] < programs[rank].actions.size()) return std::nullopt;
  }
  return *std::ranges::max_element(free);
}

}  // namespace phalanx
