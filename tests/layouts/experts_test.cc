// The same tiny models with experts in every layer: equal to one rank to rounding, to the same
// layout without anything that must not change a bit, bitwise. Experts have a grid and a reduction
// domain of their own wherever the tensor-parallel ranks are not their tensor-parallel ranks.

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cctype>
#include <string>
#include <vector>

#include "compare.h"
#include "expectations.h"

namespace phalanx {
namespace {

constexpr int kSteps = 3;
// In 16 bits the first step alone: its update rounds weights otherwise, and then tokens choose
// other experts.
constexpr int kStepsOf16Bits = 1;
// What is nearer than this is a matter of rounding: seeds are chosen so that nothing is.
constexpr float kCloseChoice = 1e-4F;

// Grids of experts of up to eight ranks: {tensor, context, data, pipeline, expert, expert tensor}.
struct Grid {
  int tensor, context, data, pipeline, expert, expert_tensor;
};

Layout layout_of(const Grid& grid) {
  Layout layout{.tensor = grid.tensor,
                .data = grid.data,
                .pipeline = grid.pipeline,
                .context = grid.context,
                .sequence_parallel = grid.tensor > 1,
                .layers = 2 * grid.pipeline,
                .experts = 4,
                .expert_parallel = grid.expert,
                .expert_tensor = grid.expert_tensor};
  if (grid.pipeline > 1) {
    layout.schedule = "1f1b";
    layout.chunks = 1;
  }
  return layout;
}

std::vector<Layout> expert_layouts() {
  // Experts that are summed over the tensor-parallel ranks too, with their states cut by each
  // stage, in files, in small messages, and in a pipeline.
  Layout sums = layout_of({2, 1, 2, 1, 1, 1});
  Layout alone = layout_of({2, 1, 1, 1, 1, 1});
  alone.zero.stage = 1;
  Layout second = layout_of({2, 1, 2, 1, 1, 1});
  second.zero.stage = 2;
  second.small_buckets = true;
  second.overlap = Overlap::kReduce;
  Layout third = layout_of({2, 2, 1, 1, 1, 1});
  third.zero = {.stage = 3, .stays_below = 96};
  third.recompute = Recompute::kUniform1;
  Layout files = layout_of({2, 1, 2, 1, 1, 1});
  files.zero.stage = 3;
  files.files = Files::kBoth;
  Layout stages = layout_of({2, 1, 1, 2, 1, 1});
  stages.zero.stage = 1;
  stages.overlap = Overlap::kReduceAndGather;
  // Experts that are shared out, cut, and both: over data-parallel ranks, over tensor-parallel
  // ranks, and over ranks of a context.
  Layout shared = layout_of({1, 1, 2, 1, 2, 1});
  shared.zero.stage = 1;
  Layout within = layout_of({2, 1, 1, 1, 2, 1});
  Layout cut = layout_of({2, 1, 2, 1, 2, 2});
  cut.zero.stage = 2;
  cut.small_buckets = true;
  Layout wider = layout_of({1, 2, 2, 1, 1, 4});
  wider.zero.stage = 3;
  Layout both = layout_of({2, 1, 4, 1, 2, 2});
  both.zero = {.stage = 3, .stays_below = 96};
  both.recompute = Recompute::kUniform1;
  Layout deep = layout_of({2, 1, 2, 2, 4, 1});
  deep.zero.stage = 1;
  deep.overlap = Overlap::kReduceAndGather;
  // Rows that travel to their experts alone, in one round and in several.
  Layout rows = shared;
  rows.planned_imbalance = 2.0;
  Layout rounds = both;
  rounds.planned_imbalance = 0.4;
  std::vector<Layout> layouts = {sums,   alone, second, third, files, stages, shared,
                                 within, cut,   wider,  both,  deep,  rows,   rounds};
  // Shared out, cut, and summed over tensor-parallel ranks, in 16 bits.
  for (const Grid& grid : {Grid{1, 1, 2, 1, 2, 1}, Grid{2, 1, 1, 1, 1, 2}, Grid{2, 1, 1, 1, 1, 1},
                           Grid{2, 1, 2, 1, 2, 2}}) {
    layouts.push_back(layout_of(grid));
    layouts.back().storage = StorageType::kBF16;
    layouts.back().planned_imbalance = grid.expert > 1 ? 2.0 : 0.0;
  }
  return layouts;
}

void expect_like_one_rank(const Layout& layout) {
  SCOPED_TRACE(name_of(layout));
  const auto config = legal_config(layout);
  ASSERT_TRUE(config.has_value());
  const int steps = layout.storage == StorageType::kF32 ? kSteps : kStepsOf16Bits;
  const TrainingResult result = train(*config, steps);
  EXPECT_EQ(result.faults, std::vector<std::string>{});
  EXPECT_EQ(result.skipped, std::vector<bool>(static_cast<std::size_t>(steps), false));
  // How many rows travel is the router's choice.
  if (layout.planned_imbalance == 0.0 && steps == kSteps) expect_planned_traffic(result);
  expect_step_of_own_gradients(result, *config);
  const Layout plain = without_bitwise_features(layout);
  if (name_of(plain) != name_of(layout)) {
    EXPECT_EQ(first_difference(result, train(*legal_config(plain), steps)), "");
  }
  const TrainingResult one_rank = train(*legal_config(on_one_rank(layout)), steps);
  // Every row of every layer and step goes where one rank sends it, and no choice is close: an
  // expert that flips is no rounding.
  ASSERT_FALSE(one_rank.routing.empty());
  ASSERT_EQ(first_difference(result.routing, one_rank.routing), "");
  ASSERT_GT(smallest_gap(result.routing), kCloseChoice);
  ASSERT_GT(smallest_gap(one_rank.routing), kCloseChoice);
  expect_close(result, one_rank, layout);
}

class ExpertLayouts : public testing::TestWithParam<Layout> {};

TEST_P(ExpertLayouts, TrainAsOneRankDoes) { expect_like_one_rank(GetParam()); }

// Where all experts have equally many rows, or are padded to a capacity, the rows that travel are
// those of the plan.
TEST(ExpertTraffic, IsThePlannedOne) {
  Layout shared = layout_of({1, 1, 2, 1, 2, 1});
  shared.planned_imbalance = 2.0;
  Layout both = layout_of({2, 1, 4, 1, 2, 2});
  both.planned_imbalance = 2.0;
  both.recompute = Recompute::kUniform1;
  for (const Layout& layout : {shared, both}) {
    for (const bool pads : {false, true}) {
      SCOPED_TRACE(fmt::format("{}, padded {}", name_of(layout), pads));
      TrainConfig config = *legal_config(layout);
      config.experts.moe_router_force_load_balancing = !pads;
      if (pads) {
        config.experts.moe_expert_capacity_factor = 1.25;
        config.experts.moe_pad_expert_input_to_capacity = true;
      }
      const TrainingResult result = train(config, kSteps);
      EXPECT_EQ(result.faults, std::vector<std::string>{});
      expect_planned_traffic(result);
    }
  }
}

TEST(ExpertLayoutsNightly, TrainAsOneRankDoes) {
  if (!is_nightly()) GTEST_SKIP() << "at night";
  std::size_t number = 0;
  for (const Grid& grid : {Grid{2, 1, 1, 1, 1, 1}, Grid{2, 2, 1, 1, 1, 1}, Grid{4, 1, 1, 1, 1, 1},
                           Grid{2, 1, 2, 1, 1, 1}, Grid{2, 2, 2, 1, 1, 1}, Grid{2, 1, 2, 2, 1, 1},
                           Grid{1, 2, 2, 1, 1, 1}, Grid{1, 1, 2, 2, 1, 1}, Grid{1, 1, 4, 1, 4, 1},
                           Grid{2, 1, 1, 1, 1, 2}, Grid{2, 1, 2, 1, 4, 1}, Grid{2, 2, 2, 1, 2, 2},
                           Grid{1, 2, 2, 1, 2, 1}, Grid{1, 1, 4, 2, 2, 2}, Grid{4, 1, 2, 1, 2, 4},
                           Grid{1, 2, 2, 2, 4, 1}}) {
    for (const int stage : {0, 1, 2, 3}) {
      for (const Overlap overlap : {Overlap::kNone, Overlap::kReduce}) {
        Layout layout = layout_of(grid);
        layout.zero.stage = stage;
        layout.overlap = overlap;
        layout.small_buckets = number % 2 == 0;
        layout.recompute = static_cast<Recompute>(number % 5);
        layout.micro_batch = number % 3 == 0 ? 2 : 1;
        layout.tied = number++ % 3 != 1;
        if (legal_config(layout)) expect_like_one_rank(layout);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Experts, ExpertLayouts, testing::ValuesIn(expert_layouts()),
                         [](const auto& layout) {
                           std::string name = name_of(layout.param);
                           for (char& c : name) {
                             if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
                           }
                           return name;
                         });

}  // namespace
}  // namespace phalanx
