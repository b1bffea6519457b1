#include "phalanx/pipeline/saved_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "phalanx/base/numeric.h"
#include "phalanx/model/gpt.h"
#include "phalanx/pipeline/schedules/no_pipelining.h"
#include "phalanx/pipeline/test_support.h"
#include "phalanx/pipeline/verifier.h"

namespace phalanx {
namespace {

using nn::PassKind;
using Tables = std::vector<std::vector<SavedBlock>>;

SavedBlock block(std::int64_t bytes, PassPoint born, PassPoint last) {
  return {.name = "block", .dtype = DType::kU8, .shape = {bytes}, .born = born, .last = last};
}

constexpr PassPoint forward(int unit) { return {PassKind::kForward, unit}; }
constexpr PassPoint input(int unit) { return {PassKind::kBackwardInput, unit}; }
constexpr PassPoint weight(int unit) { return {PassKind::kBackwardWeight, unit}; }

// A saved block of one microbatch in time and in the pool.
struct Placed {
  int born = 0, last = 0;
  std::int64_t offset = 0, bytes = 0;
};

// When each (chunk, microbatch, pass, unit) runs: the order the executor and the chunk follow.
class Clock {
 public:
  Clock(const Program& program, int units) {
    for (const Action& action : program.actions) {
      for (int i = 0; i < units; ++i) {
        const int back = units - 1 - i;
        if (action.kind == ActionKind::kForward) tick(action, forward(i));
        if (action.kind == ActionKind::kBackwardInput || action.kind == ActionKind::kBackward) {
          tick(action, input(back));
        }
        if (action.kind == ActionKind::kBackwardWeight || action.kind == ActionKind::kBackward) {
          tick(action, weight(back));
        }
      }
    }
  }
  int at(int chunk, int microbatch, PassPoint point) const {
    return times_.at({chunk, microbatch, static_cast<int>(point.pass), point.unit});
  }
  int now() const { return now_; }

 private:
  void tick(const Action& action, PassPoint point) {
    times_[{action.chunk, action.microbatch, static_cast<int>(point.pass), point.unit}] = now_++;
  }
  std::map<std::array<int, 4>, int> times_;
  int now_ = 0;
};

std::vector<Placed> placements(const Program& program, const Tables& tables, const SavedPlan& plan,
                               const Clock& clock) {
  std::vector<Placed> placed;
  for (int chunk = 0; chunk < program.chunks; ++chunk) {
    const auto& blocks = tables[static_cast<std::size_t>(chunk)];
    for (int m = 0; m < program.microbatches; ++m) {
      const auto offsets = plan.offsets(chunk, m);
      EXPECT_EQ(offsets.size(), blocks.size());
      for (std::size_t i = 0; i < blocks.size(); ++i) {
        if (blocks[i].bytes() == 0) continue;
        placed.push_back({clock.at(chunk, m, blocks[i].born), clock.at(chunk, m, blocks[i].last),
                          offsets[i], blocks[i].bytes()});
      }
    }
  }
  return placed;
}

// The most bytes, in whole alignments, that live at one moment.
std::int64_t live_maximum(const std::vector<Placed>& placed, int end) {
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

// No two blocks that live at the same time overlap; all lie in the pool.
void expect_sound(const Program& program, const Tables& tables, int units) {
  verify(program);
  const SavedPlan plan(program, tables);
  const Clock clock(program, units);
  const auto placed = placements(program, tables, plan, clock);
  for (std::size_t i = 0; i < placed.size(); ++i) {
    const Placed& a = placed[i];
    ASSERT_EQ(a.offset % kArenaAlignment, 0);
    ASSERT_GE(a.offset, 0);
    ASSERT_LE(a.offset + a.bytes, plan.bytes()) << text_of(program);
    for (std::size_t j = 0; j < i; ++j) {
      const Placed& b = placed[j];
      const bool together = a.born <= b.last && b.born <= a.last;
      const bool overlap = a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
      ASSERT_FALSE(together && overlap) << text_of(program);
    }
  }
  EXPECT_GE(plan.bytes(), live_maximum(placed, clock.now()));
}

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  int below(int bound) { return static_cast<int>(engine_() % static_cast<unsigned>(bound)); }

  std::vector<SavedBlock> blocks(int units) {
    std::vector<SavedBlock> result;
    for (int i = 1 + below(10); i > 0; --i) {
      const int unit = below(units);
      const std::int64_t bytes = below(5) == 0 ? 0 : 1 + below(2000);
      const PassPoint ends[] = {forward(unit + below(units - unit)), input(below(units)),
                                weight(below(units)), input(below(unit + 1)),
                                weight(below(unit + 1))};
      const int kind = below(5);
      result.push_back(block(bytes, kind < 3 ? forward(unit) : input(unit), ends[kind]));
    }
    return result;
  }

  // Any order that the verifier accepts.
  Program program(int chunks, int microbatches) {
    Program result{.actions = {}, .chunks = chunks, .microbatches = microbatches};
    std::vector<int> next_forward(static_cast<std::size_t>(chunks)), next_weight = next_forward;
    std::set<std::pair<int, int>> waiting;  // (chunk, microbatch) that has its input gradient
    int open = chunks * microbatches;
    while (open > 0) {
      const int chunk = below(chunks);
      auto& f = next_forward[static_cast<std::size_t>(chunk)];
      auto& w = next_weight[static_cast<std::size_t>(chunk)];
      const int pick = below(4);
      if (pick == 0 && f < microbatches) {
        result.actions.push_back({ActionKind::kForward, chunk, f++});
      } else if (pick == 1 && w < f && !waiting.contains({chunk, w})) {
        result.actions.push_back({ActionKind::kBackward, chunk, w++});
        --open;
      } else if (pick == 2 && w < f) {
        const int m = w + below(f - w);
        if (!waiting.emplace(chunk, m).second) continue;
        result.actions.push_back({ActionKind::kBackwardInput, chunk, m});
      } else if (pick == 3 && waiting.contains({chunk, w})) {
        result.actions.push_back({ActionKind::kBackwardWeight, chunk, w++});
        --open;
      }
    }
    for (int chunk = 0; chunk < chunks; ++chunk) {
      result.actions.push_back({ActionKind::kReduceGradients, chunk, 0});
    }
    result.actions.push_back({ActionKind::kOptimizerStep, 0, 0});
    return result;
  }

 private:
  std::mt19937 engine_;
};

TEST(SavedPlan, NothingThatLivesTogetherOverlaps) {
  for (unsigned seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const int units = 1 + random.below(4);
    const int chunks = 1 + random.below(3);
    Tables tables;
    for (int c = 0; c < chunks; ++c) tables.push_back(random.blocks(units));
    // Each chunk's last unit is seen through its blocks, so that both sides agree on the units.
    for (auto& table : tables) table.push_back(block(8, forward(0), weight(units - 1)));
    ASSERT_NO_FATAL_FAILURE(
        expect_sound(random.program(chunks, 1 + random.below(6)), tables, units));
  }
}

// One stack of blocks that grows forward and shrinks backward: packed without a gap.
TEST(SavedPlan, AStackTakesNoMoreThanWhatLives) {
  const Tables tables = {{block(1000, forward(0), weight(0)), block(500, forward(1), weight(1)),
                          block(300, input(1), weight(1)), block(300, input(0), weight(0))}};
  const SavedPlan plan(no_pipelining(3), tables);
  EXPECT_EQ(plan.bytes(), 1024 + 512 + 512);
  EXPECT_EQ(plan.bytes_per_microbatch(0), 1500);
  EXPECT_EQ(plan.microbatches_in_flight(0), 1);
}

TEST(SavedPlan, MicrobatchesInFlight) {
  const Tables tables = {{block(256, forward(0), weight(0))}};
  const auto plan = [&](const char* text) { return SavedPlan(program_of(text, 1, 4), tables); };
  const SavedPlan gpipe = plan("F0.0 F1.0 F2.0 F3.0 B0.0 B1.0 B2.0 B3.0 reduce.0 step");
  EXPECT_EQ(gpipe.microbatches_in_flight(0), 4);
  EXPECT_EQ(gpipe.bytes(), 4 * 256);
  const SavedPlan one_forward_one_backward =
      plan("F0.0 F1.0 B0.0 F2.0 B1.0 F3.0 B2.0 B3.0 reduce.0 step");
  EXPECT_EQ(one_forward_one_backward.microbatches_in_flight(0), 2);
  EXPECT_EQ(one_forward_one_backward.bytes(), 2 * 256);
  // Split: held until the weight gradient.
  EXPECT_EQ(plan("F0.0 b0.0 F1.0 b1.0 w0.0 F2.0 b2.0 w1.0 w2.0 F3.0 B3.0 reduce.0 step").bytes(),
            2 * 256);
}

// What is born and dies at the same point still has its place, and a hole is used again.
TEST(SavedPlan, HolesAreUsedAgain) {
  const Tables tables = {{block(256, forward(0), forward(0)), block(512, forward(0), forward(1)),
                          block(256, forward(1), weight(0)), block(512, input(1), input(1))}};
  const SavedPlan plan(no_pipelining(1), tables);
  EXPECT_EQ(plan.bytes(), 256 + 512);
  EXPECT_EQ(plan.offsets(0, 0)[2], plan.offsets(0, 0)[0]);
  EXPECT_EQ(plan.offsets(0, 0)[3], plan.offsets(0, 0)[1]);
}

TEST(SavedPlan, EvaluationFreesEveryMicrobatch) {
  const Tables tables = {{block(256, forward(0), forward(1)), block(256, forward(1), forward(1))}};
  const SavedPlan plan(forward_only(5), tables);
  EXPECT_EQ(plan.bytes(), 512);
  EXPECT_EQ(plan.microbatches_in_flight(0), 1);
  EXPECT_EQ(plan.bytes_per_microbatch(0), 0);
}

// GPT-3's layers, a step of 1,536 microbatches: every microbatch gets the same places, and the pool
// does not grow with their number.
TEST(SavedPlan, LongPrograms) {
  GptConfig config;
  config.transformer.num_layers = 96;
  config.transformer.hidden = 12288;
  config.transformer.ffn_hidden = 4 * 12288;
  config.transformer.heads = 96;
  config.transformer.query_groups = 96;
  config.transformer.head_size = 128;
  config.transformer.dtype = DType::kBF16;
  config.vocabulary = 50257;
  config.padded_vocabulary = 51200;
  config.max_positions = 2048;
  nn::ParamTable table;
  const Chunk chunk = build_gpt_chunk(config, {0, 96, true, true}, table);
  const Tables tables = {chunk.saved_blocks({.sequence = 2048, .micro_batch = 1}, false)};
  const SavedPlan once(no_pipelining(1), tables);
  const SavedPlan plan(no_pipelining(1536), tables);
  EXPECT_EQ(plan.bytes(), once.bytes());
  const auto first = plan.offsets(0, 0);
  for (const int m : {1, 700, 1535}) {
    const auto other = plan.offsets(0, m);
    EXPECT_TRUE(std::equal(first.begin(), first.end(), other.begin(), other.end())) << m;
  }
  // Little is lost to fragmentation.
  const Clock clock(no_pipelining(1), chunk.num_units());
  const auto live = live_maximum(placements(no_pipelining(1), tables, once, clock), clock.now());
  EXPECT_GE(once.bytes(), live);
  EXPECT_LE(static_cast<double>(once.bytes()), 1.01 * static_cast<double>(live));
  EXPECT_GT(once.bytes(), once.bytes_per_microbatch(0));
}

}  // namespace
}  // namespace phalanx
