// The places of saved tensors: correct for any program, and packed once where it repeats itself.

#include "phalanx/pipeline/saved_packing.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "phalanx/model/gpt.h"
#include "phalanx/pipeline/lowering.h"
#include "phalanx/pipeline/saved_plan_test_support.h"

namespace phalanx {
namespace {

// Checks that all tensors lie in the pool, and that no two that live at the same time overlap. Adds
// up the pool's size and the least possible size.
struct Sizes {
  std::int64_t packed = 0, live = 0;
  double waste() const { return static_cast<double>(packed) / static_cast<double>(live) - 1.0; }
};
void expect_sound(const Program& program, const Tables& tables, const std::vector<int>& units,
                  Sizes& sizes) {
  const SavedPlan plan(program, tables);
  const Clock clock(program, units);
  auto placed = placements(program, tables, plan, clock);
  const std::int64_t live = live_maximum(placed, clock.now());
  EXPECT_GE(plan.bytes(), live);
  sizes.packed += plan.bytes();
  sizes.live += live;
  std::ranges::sort(placed, {}, &Placed::born);
  std::map<std::int64_t, Placed> alive;  // by offset
  std::multimap<int, std::int64_t> ends;
  for (const Placed& p : placed) {
    ASSERT_EQ(p.offset % kArenaAlignment, 0);
    ASSERT_GE(p.offset, 0);
    ASSERT_LE(p.offset + p.bytes, plan.bytes()) << text_of(program);
    while (!ends.empty() && ends.begin()->first < p.born) {
      alive.erase(ends.begin()->second);
      ends.erase(ends.begin());
    }
    const auto next = alive.lower_bound(p.offset);
    ASSERT_TRUE(next == alive.end() || p.offset + p.bytes <= next->first) << text_of(program);
    if (next != alive.begin()) {
      const Placed& previous = std::prev(next)->second;
      ASSERT_LE(previous.offset + previous.bytes, p.offset) << text_of(program);
    }
    alive.emplace(p.offset, p);
    ends.emplace(p.last, p.offset);
  }
}

// Skipping repetitions gives the same result as packing everything.
void expect_repetitions_make_no_difference(const Program& program, const Tables& tables) {
  const auto events = saved_events(program);
  const auto lives = saved_lives(program, tables);
  const PackedOffsets skipped = pack_offsets(events, lives, Repetitions::kSkipped);
  const PackedOffsets packed = pack_offsets(events, lives, Repetitions::kPacked);
  EXPECT_EQ(skipped.bytes, packed.bytes);
  ASSERT_EQ(skipped.layout_of.size(), packed.layout_of.size());
  for (std::size_t i = 0; i < packed.layout_of.size(); ++i) {
    const std::size_t layout = packed.layout_of[i];
    ASSERT_EQ(skipped.layout_of[i] == PackedOffsets::kNoLayout, layout == PackedOffsets::kNoLayout);
    if (layout == PackedOffsets::kNoLayout) continue;
    ASSERT_EQ(skipped.layouts[skipped.layout_of[i]], packed.layouts[layout])
        << "chunk " << i / static_cast<std::size_t>(packed.microbatches) << ", microbatch "
        << i % static_cast<std::size_t>(packed.microbatches);
  }
}

// The source of a chunk's input, and the destination of its output.
enum class End : std::uint8_t { kNone, kRemote, kLocal };

struct RandomChunk {
  int units = 1;
  End before = End::kNone;
  End behind = End::kNone;  // local: the next chunk of the rank
};

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  int below(int bound) { return static_cast<int>(engine_() % static_cast<unsigned>(bound)); }

  std::vector<RandomChunk> chunks() {
    std::vector<RandomChunk> result(static_cast<std::size_t>(1 + below(3)));
    for (std::size_t c = 0; c < result.size(); ++c) {
      result[c].units = 1 + below(4);
      const bool local = c > 0 && below(2) == 0;
      result[c].before = local ? End::kLocal : below(2) == 0 ? End::kNone : End::kRemote;
      result[c].behind = below(2) == 0 ? End::kNone : End::kRemote;
      if (local) result[c - 1].behind = End::kLocal;
    }
    return result;
  }

  std::vector<SavedTensor> tensors(const RandomChunk& chunk, bool forward_only) {
    const int units = chunk.units;
    const auto bytes = [&] { return below(5) == 0 ? 0 : 1 + below(2000); };
    std::vector<SavedTensor> result;
    for (int i = 1 + below(10); i > 0; --i) {
      const int unit = below(units);
      const PassPoint ends[] = {forward(unit + below(units - unit)), input(below(units)),
                                weight(below(units)), input(below(unit + 1)),
                                weight(below(unit + 1))};
      const int kind = forward_only ? 0 : below(5);
      result.push_back(saved_tensor(bytes(), kind < 3 ? forward(unit) : input(unit), ends[kind]));
    }
    // Some tensor always names the last unit.
    const PassPoint last_point = forward_only ? forward(units - 1) : weight(units - 1);
    result.push_back(saved_tensor(8, forward(0), last_point));
    if (chunk.before != End::kNone) {
      const PassPoint ends[] = {forward(below(units)), input(below(units)), weight(below(units))};
      result.push_back(saved_tensor(bytes(), forward(-1), ends[forward_only ? 0 : below(3)]));
      if (!forward_only) result.push_back(saved_tensor(bytes(), input(below(units)), input(-1)));
    }
    if (chunk.behind != End::kNone) {
      result.push_back(saved_tensor(bytes(), forward(below(units)), forward(units)));
      if (!forward_only) {
        const PassPoint ends[] = {input(below(units)), weight(below(units))};
        result.push_back(saved_tensor(bytes(), input(units), ends[below(2)]));
      }
    }
    return result;
  }

  // The chunks' passes and messages in any order in which each has what it needs.
  Program program(const std::vector<RandomChunk>& chunks, int microbatches, bool forward_only) {
    Program result{.actions = {},
                   .chunks = static_cast<int>(chunks.size()),
                   .microbatches = microbatches,
                   .forward_only = forward_only};
    for (int m = 0; m < microbatches; ++m) append_steps(chunks, m, forward_only);
    std::vector<Step> left = std::move(steps_);
    std::vector<bool> done(left.size(), false);
    for (std::size_t count = 0; count < left.size();) {
      // Mostly from the beginning, so that microbatches follow each other.
      const auto window = std::min<std::size_t>(left.size(), 60);
      const auto begin = static_cast<std::size_t>(std::ranges::find(done, false) - done.begin());
      const std::size_t s =
          begin +
          static_cast<std::size_t>(below(static_cast<int>(std::min(window, left.size() - begin))));
      const bool ready = std::ranges::all_of(left[s].needs, [&](std::size_t n) { return done[n]; });
      if (done[s] || !ready) continue;
      done[s] = true;
      ++count;
      result.actions.push_back(left[s].action);
    }
    result.actions.push_back({.kind = ActionKind::kOptimizerStep});
    return result;
  }

 private:
  struct Step {
    Action action;
    std::vector<std::size_t> needs;
  };

  std::size_t add(const Action& action, std::vector<std::size_t> needs) {
    steps_.push_back({action, std::move(needs)});
    return steps_.size() - 1;
  }

  // A microbatch that goes through all chunks and back.
  void append_steps(const std::vector<RandomChunk>& chunks, int m, bool forward_only) {
    using enum ActionKind;
    const int last = static_cast<int>(chunks.size()) - 1;
    std::vector<std::size_t> forwards;
    std::vector<std::size_t> received;  // needed by the next forward or backward pass
    for (int c = 0; c <= last; ++c) {
      const RandomChunk& chunk = chunks[static_cast<std::size_t>(c)];
      if (chunk.before == End::kNone) received.clear();
      if (chunk.before == End::kRemote) {
        received = {add(message(kReceive, Payload::kActivation, c, m), {})};
      }
      forwards.push_back(add(pass(kForward, c, m), received));
      hand_on(chunk.behind, Payload::kActivation, c, c + 1, m, forwards.back(), received);
    }
    if (forward_only) return;
    for (int c = last; c >= 0; --c) {
      const RandomChunk& chunk = chunks[static_cast<std::size_t>(c)];
      const std::size_t f = forwards[static_cast<std::size_t>(c)];
      if (chunk.behind == End::kNone) received.clear();
      if (chunk.behind == End::kRemote) {
        received = {add(message(kReceive, Payload::kGradient, c, m), {f})};
      }
      received.push_back(f);
      const bool split = below(2) == 0;
      const std::size_t b = add(pass(split ? kBackwardInput : kBackward, c, m), received);
      if (split) add(pass(kBackwardWeight, c, m), {b});
      hand_on(chunk.before, Payload::kGradient, c, c - 1, m, b, received);
    }
  }

  // Appends the message after a pass; `received`: the chunk of the rank that waits for a hand-over.
  void hand_on(End to, Payload payload, int chunk, int next, int m, std::size_t made,
               std::vector<std::size_t>& received) {
    using enum ActionKind;
    received.clear();
    if (to == End::kLocal) received = {add(message(kHandOver, payload, chunk, m, next), {made})};
    if (to != End::kRemote) return;
    const std::size_t sent = add(message(kSend, payload, chunk, m), {made});
    add(message(kAwaitSend, payload, chunk, m), {sent});
  }

  std::mt19937 engine_;
  std::vector<Step> steps_;
};

TEST(SavedPacking, NothingThatLivesTogetherOverlaps) {
  Sizes sizes;
  for (unsigned seed = 0; seed < 600; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const bool forward_only = random.below(4) == 0;
    const auto chunks = random.chunks();
    Tables tables;
    std::vector<int> units;
    for (const RandomChunk& chunk : chunks) {
      tables.push_back(random.tensors(chunk, forward_only));
      units.push_back(chunk.units);
    }
    const Program program = random.program(chunks, 1 + random.below(12), forward_only);
    ASSERT_NO_FATAL_FAILURE(expect_sound(program, tables, units, sizes));
    ASSERT_NO_FATAL_FAILURE(expect_repetitions_make_no_difference(program, tables));
  }
  EXPECT_LT(sizes.waste(), 0.1);
}

// From here on: a GPT, and schedules as they are run.
GptConfig gpt_of(std::int64_t layers, RecomputePlan recompute = {}) {
  GptConfig config;
  config.transformer.num_layers = layers;
  config.transformer.hidden = 64;
  config.transformer.ffn_hidden = 256;
  config.transformer.heads = 4;
  config.transformer.query_groups = 4;
  config.transformer.head_size = 16;
  config.vocabulary = 1000;
  config.padded_vocabulary = 1024;
  config.max_positions = 32;
  config.tied_embedding = false;
  config.recompute = recompute;
  return config;
}

// The chunks of one rank, `layers` in each.
struct RankChunks {
  RankChunks(const GptConfig& config, const Placement& placement, int rank,
             const nn::BatchShape& shape, bool forward_only) {
    nn::ParamTable table;
    const int last = placement.stages() - 1;
    const std::int64_t layers = config.transformer.num_layers / placement.stages();
    for (int c = 0; c < placement.chunks(); ++c) {
      const int stage = placement.stage(rank, c);
      const Chunk chunk =
          build_gpt_chunk(config, {stage * layers, layers, stage == 0, stage == last}, table);
      tables.push_back(chunk.saved_tensors(shape, forward_only));
      units.push_back(chunk.num_units());
    }
  }
  Tables tables;
  std::vector<int> units;
};

constexpr nn::BatchShape kShape{.sequence = 32, .micro_batch = 2};

// Every kind that can be trained with on four ranks, and some with other numbers.
std::vector<Schedule> schedules_in_use() {
  const auto made = [](std::string_view kind, int ranks, int chunks) {
    return make_schedule(
        kind,
        {.ranks = ranks, .microbatches = 24, .chunks = chunks, .costs = {}, .memory_limit = {}});
  };
  std::vector<Schedule> schedules = {made("1f1b", 1, 1), made("interleaved", 2, 3),
                                     made("dualpipe-v", 3, 2)};
  for (const ScheduleKind& kind : schedule_kinds()) {
    if (kind.directions() == 1) schedules.push_back(made(kind.name, 4, 0));
  }
  return schedules;
}

TEST(SavedPacking, EverySchedule) {
  Sizes all;
  for (const Schedule& schedule : schedules_in_use()) {
    for (const RecomputePlan& recompute :
         {RecomputePlan{},
          RecomputePlan{.method = RecomputePlan::Method::kUniform, .num_layers = 2}}) {
      const GptConfig config = gpt_of(2 * schedule.placement.stages(), recompute);
      const auto programs = lower(schedule);
      for (int rank = 0; rank < schedule.placement.ranks(); ++rank) {
        SCOPED_TRACE(
            fmt::format("{}, rank {} of {}", schedule.kind, rank, schedule.placement.ranks()));
        const Program& program = programs[static_cast<std::size_t>(rank)];
        const RankChunks chunks(config, schedule.placement, rank, kShape, false);
        Sizes sizes;
        ASSERT_NO_FATAL_FAILURE(expect_sound(program, chunks.tables, chunks.units, sizes));
        ASSERT_NO_FATAL_FAILURE(expect_repetitions_make_no_difference(program, chunks.tables));
        EXPECT_LT(sizes.waste(), 0.2);
        all.packed += sizes.packed;
        all.live += sizes.live;
      }
    }
  }
  EXPECT_LT(all.waste(), 0.02);
}

TEST(SavedPacking, EveryEvaluation) {
  for (const Placement& placement :
       {Placement::contiguous(1), Placement::contiguous(4), Placement::looped(3, 2),
        Placement::wave(2, 2), Placement::wave(3, 4)}) {
    const Schedule schedule = forward_only_schedule(placement, 20);
    const auto programs = lower(schedule);
    for (int rank = 0; rank < placement.ranks(); ++rank) {
      SCOPED_TRACE(fmt::format("{}, rank {}", name_of(placement.shape()), rank));
      const Program& program = programs[static_cast<std::size_t>(rank)];
      const RankChunks chunks(gpt_of(2 * placement.stages()), placement, rank, kShape, true);
      Sizes sizes;
      ASSERT_NO_FATAL_FAILURE(expect_sound(program, chunks.tables, chunks.units, sizes));
      ASSERT_NO_FATAL_FAILURE(expect_repetitions_make_no_difference(program, chunks.tables));
      const SavedPlan plan(program, chunks.tables);
      EXPECT_EQ(plan.bytes_per_microbatch(0), 0);
      // Twice as many microbatches need no more memory.
      const auto twice = lower(forward_only_schedule(placement, 40));
      EXPECT_EQ(SavedPlan(twice[static_cast<std::size_t>(rank)], chunks.tables).bytes(),
                plan.bytes());
    }
  }
}

GptConfig gpt3() {
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
  config.tied_embedding = false;
  return config;
}
constexpr nn::BatchShape kGpt3Shape{.sequence = 2048, .micro_batch = 1};

// GPT-3's layers, a step of 1,536 microbatches: microbatches use the same places, and the pool does
// not grow with their number.
TEST(SavedPacking, LongPrograms) {
  const RankChunks chunks(gpt3(), Placement::contiguous(1), 0, kGpt3Shape, false);
  const SavedPlan once(one_by_one(1), chunks.tables);
  const SavedPlan plan(one_by_one(1536), chunks.tables);
  EXPECT_EQ(plan.bytes(), once.bytes());
  EXPECT_EQ(distinct_layouts(plan, one_by_one(1536)), 1U);
  EXPECT_TRUE(std::ranges::equal(plan.offsets(0, 700), once.offsets(0, 0)));
  // Little is lost to fragmentation.
  const Clock clock(one_by_one(1), chunks.units);
  const auto live =
      live_maximum(placements(one_by_one(1), chunks.tables, once, clock), clock.now());
  EXPECT_GE(once.bytes(), live);
  EXPECT_LE(static_cast<double>(once.bytes()), 1.01 * static_cast<double>(live));
  EXPECT_GT(once.bytes(), once.bytes_per_microbatch(0));
}

// In a steady state microbatches take turns in the same places, which are found among the first of
// them: twice as many need no more memory.
TEST(SavedPacking, SteadyStatesArePackedOnce) {
  for (const auto& [kind, ranks, chunks, most] : {std::tuple{"1f1b", 8, 1, 40},
                                                  {"zb-h1", 8, 1, 100},
                                                  {"zb-v", 4, 2, 250},
                                                  {"hanayo", 4, 2, 250},
                                                  {"interleaved", 4, 2, 250},
                                                  {"pipedream-2bw", 8, 1, 40}}) {
    const Schedule schedule = make_schedule(
        kind,
        {.ranks = ranks, .microbatches = 1536, .chunks = chunks, .costs = {}, .memory_limit = {}});
    const auto programs = lower(schedule);
    for (int rank = 0; rank < ranks; ++rank) {
      const RankChunks parts(gpt3(), schedule.placement, rank, kGpt3Shape, false);
      const Program& program = programs[static_cast<std::size_t>(rank)];
      const auto events = saved_events(program);
      const auto packed = pack_offsets(events, saved_lives(program, parts.tables));
      EXPECT_LT(packed.packed_events, events.size() / 2) << kind << ", rank " << rank;
      EXPECT_LE(distinct_layouts(SavedPlan(program, parts.tables), program),
                static_cast<std::size_t>(most))
          << kind << ", rank " << rank;
    }
  }
}

// Eight of all 96 layers' microbatches at once.
TEST(SavedPacking, ManyLayersInFlight) {
  const RankChunks chunks(gpt3(), Placement::contiguous(1), 0, kGpt3Shape, false);
  Program program{.actions = {}, .chunks = 1, .microbatches = 1536};
  for (int m = 0; m < 1536 + 7; ++m) {
    if (m < 1536) program.actions.push_back(pass(ActionKind::kForward, 0, m));
    if (m >= 7) program.actions.push_back(pass(ActionKind::kBackward, 0, m - 7));
  }
  const SavedPlan plan(program, chunks.tables);
  EXPECT_EQ(plan.microbatches_in_flight(0), 8);
  EXPECT_LE(distinct_layouts(plan, program), 32U);
  const SavedPlan once(one_by_one(1), chunks.tables);
  EXPECT_EQ(plan.bytes(), once.bytes() + 7 * plan.bytes_per_microbatch(0));
}

}  // namespace
}  // namespace phalanx
