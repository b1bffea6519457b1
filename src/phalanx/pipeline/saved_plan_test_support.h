#pragma once
// Saved tensors in time and in the pool, for tests of their places.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <vector>

#include "phalanx/base/numeric.h"
#include "phalanx/pipeline/saved_plan.h"
#include "phalanx/pipeline/test_support.h"

namespace phalanx {

using nn::PassKind;
using Tables = std::vector<std::vector<SavedTensor>>;

inline SavedTensor saved_tensor(std::int64_t bytes, PassPoint born, PassPoint last) {
  return {.name = "tensor", .dtype = DType::kU8, .shape = {bytes}, .born = born, .last = last};
}

constexpr PassPoint forward(int unit) { return {PassKind::kForward, unit}; }
constexpr PassPoint input(int unit) { return {PassKind::kBackwardInput, unit}; }
constexpr PassPoint weight(int unit) { return {PassKind::kBackwardWeight, unit}; }

inline Action message(ActionKind kind, Payload payload, int chunk, int microbatch, int peer = 0) {
  return {.kind = kind, .payload = payload, .chunk = chunk, .microbatch = microbatch, .peer = peer};
}

// A saved tensor of one microbatch in time and in the pool.
struct Placed {
  int born = 0, last = 0;
  std::int64_t offset = 0, bytes = 0;
};

// The time of each (chunk, microbatch, pass, unit), in the order of the executor and the chunk.
class Clock {
 public:
  // `units` by chunk.
  Clock(const Program& program, const std::vector<int>& units) {
    for (const Action& action : program.actions) {
      if (is_pass(action.kind)) tick_pass(action, units[static_cast<std::size_t>(action.chunk)]);
      if (is_message(action.kind)) tick_message(action, units);
    }
  }
  int at(int chunk, int microbatch, PassPoint point) const {
    return times_.at({chunk, microbatch, static_cast<int>(point.pass), point.unit});
  }
  int now() const { return now_; }

 private:
  void tick_pass(const Action& action, int units) {
    for (int i = 0; i < units; ++i) {
      const int back = units - 1 - i;
      if (action.kind == ActionKind::kForward) tick(action.chunk, action.microbatch, forward(i));
      if (makes_input_gradient(action.kind)) tick(action.chunk, action.microbatch, input(back));
      if (adds_weight_gradient(action.kind)) tick(action.chunk, action.microbatch, weight(back));
    }
  }
  void tick_message(const Action& action, const std::vector<int>& units) {
    const bool activation = action.payload == Payload::kActivation;
    const auto come = [&](int chunk) {
      const int behind = units[static_cast<std::size_t>(chunk)];
      tick(chunk, action.microbatch, activation ? forward(-1) : input(behind));
    };
    if (action.kind == ActionKind::kReceive) come(action.chunk);
    if (action.kind == ActionKind::kHandOver) come(action.peer);
    if (action.kind != ActionKind::kAwaitSend && action.kind != ActionKind::kHandOver) return;
    const int behind = units[static_cast<std::size_t>(action.chunk)];
    tick(action.chunk, action.microbatch, activation ? forward(behind) : input(-1));
  }
  void tick(int chunk, int microbatch, PassPoint point) {
    times_[{chunk, microbatch, static_cast<int>(point.pass), point.unit}] = now_++;
  }
  std::map<std::array<int, 4>, int> times_;
  int now_ = 0;
};

inline std::vector<Placed> placements(const Program& program, const Tables& tables,
                                      const SavedPlan& plan, const Clock& clock) {
  std::vector<Placed> placed;
  for (int chunk = 0; chunk < program.chunks; ++chunk) {
    const auto& tensors = tables[static_cast<std::size_t>(chunk)];
    for (int m = 0; m < program.microbatches; ++m) {
      const auto offsets = plan.offsets(chunk, m);
      EXPECT_EQ(offsets.size(), tensors.size());
      for (std::size_t i = 0; i < tensors.size(); ++i) {
        if (tensors[i].bytes() == 0) continue;
        placed.push_back({clock.at(chunk, m, tensors[i].born), clock.at(chunk, m, tensors[i].last),
                          offsets[i], tensors[i].bytes()});
      }
    }
  }
  return placed;
}

// The most bytes, rounded up to the alignment, that live at one moment.
inline std::int64_t live_maximum(const std::vector<Placed>& placed, int end) {
  std::vector<std::int64_t> change(static_cast<std::size_t>(end) + 2, 0);
  for (const Placed& p : placed) {
    change[static_cast<std::size_t>(p.born)] += round_up(p.bytes, kArenaAlignment);
    change[static_cast<std::size_t>(p.last) + 1] -= round_up(p.bytes, kArenaAlignment);
  }
  std::int64_t live = 0;
  std::int64_t most = 0;
  for (const auto delta : change) most = std::max(most, live += delta);
  return most;
}

// The number of distinct offset tables of a plan.
inline std::size_t distinct_layouts(const SavedPlan& plan, const Program& program) {
  std::set<const std::int64_t*> tables;
  for (int chunk = 0; chunk < program.chunks; ++chunk) {
    for (int m = 0; m < program.microbatches; ++m) tables.insert(plan.offsets(chunk, m).data());
  }
  return tables.size();
}

// A program in which every microbatch goes forward and backward before the next.
inline Program one_by_one(int microbatches) {
  Program program{.actions = {}, .chunks = 1, .microbatches = microbatches};
  for (int m = 0; m < microbatches; ++m) {
    program.actions.push_back(pass(ActionKind::kForward, 0, m));
    program.actions.push_back(pass(ActionKind::kBackward, 0, m));
  }
  return program;
}

}  // namespace phalanx
