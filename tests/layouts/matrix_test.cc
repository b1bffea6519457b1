// The same tiny model, trained on many layouts: bitwise equal where that is promised, equal to
// rounding elsewhere. With PHALANX_SHOW_DISTANCES=1 the distances are printed, one layout a line.

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <map>
#include <ostream>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "compare.h"
#include "expectations.h"
#include "golden_digests.h"
#include "phalanx/families/family.h"
#include "phalanx/settings/config_views.h"

namespace phalanx {
namespace {

struct World {
  int tensor, data;
  friend std::ostream& operator<<(std::ostream& out, const World& world) {
    return out << "t" << world.tensor << " d" << world.data;
  }
};

// In full precision until rounding shows, and to the digests that are kept; 16-bit layouts by day
// for three steps: each part of a step has then met what the step before it left.
int steps_of(const Layout& layout) {
  return layout.storage == StorageType::kF32 || is_nightly() ? kTrainingSteps : 3;
}

class LayoutMatrix : public testing::TestWithParam<World> {};

TEST_P(LayoutMatrix, TrainsAsOneRankDoes) {
  const auto layouts = layouts_of_world(GetParam().tensor, GetParam().data, is_nightly());
  ASSERT_FALSE(layouts.empty());
  Trainings trainings;
  for (const Layout& layout : layouts) {
    SCOPED_TRACE(name_of(layout));
    const int steps = steps_of(layout);
    const TrainingResult result = expect_training(layout, steps, trainings);
    expect_traffic(result, *legal_config(layout));
    expect_golden_digest(result, layout);
    // The bits of no pipeline: how near these are is the flat layouts' business.
    if (layout.pipeline > 1) continue;
    expect_close(result, trainings.of(on_one_rank(layout), steps), layout);
  }
}

INSTANTIATE_TEST_SUITE_P(Worlds, LayoutMatrix,
                         testing::Values(World{1, 1}, World{1, 2}, World{1, 4}, World{1, 8},
                                         World{2, 1}, World{2, 2}, World{2, 4}, World{4, 1},
                                         World{4, 2}),
                         [](const auto& world) {
                           return fmt::format("t{}d{}", world.param.tensor, world.param.data);
                         });

TEST(LayoutMatrix, HasEveryWorldScheduleShardingAndKindOfStorageAndFiles) {
  std::set<std::tuple<int, int, int>> worlds;
  std::set<std::pair<std::string, int>> schedules;  // with the number of stages
  std::set<std::pair<std::string, bool>> even;      // and with whether it divides the layers
  std::map<StorageType, int> storages;
  using Shared = std::tuple<int, int, bool, int>;
  std::set<Shared> shared;
  std::set<std::pair<Shared, Recompute>> recomputed;
  std::set<std::pair<Shared, Files>> in_files;
  std::set<std::pair<Files, Recompute>> recomputed_in_files;
  for (const Layout& layout : covering_layouts()) {
    worlds.insert({layout.tensor, layout.pipeline, layout.data});
    ++storages[layout.storage];
    const Sharding& zero = layout.zero;
    const Shared kind{zero.stage, zero.copies, zero.accumulate_unsharded, zero.prefetch};
    shared.insert(kind);
    if (zero.stage == 3) recomputed.insert({kind, layout.recompute});
    if (layout.files != Files::kNone) in_files.insert({kind, layout.files});
    if (layout.files != Files::kNone) recomputed_in_files.insert({layout.files, layout.recompute});
    if (layout.pipeline == 1) continue;
    schedules.insert({layout.schedule, layout.pipeline});
    even.insert({layout.schedule, layout.layers % (layout.pipeline * layout.chunks) == 0});
  }
  EXPECT_EQ(worlds.size(), 9U + 13U);
  EXPECT_EQ(schedules.size(), 10U * 4U);
  EXPECT_EQ(even.size(), 10U * 2U);
  EXPECT_EQ(storages.size(), 5U);
  EXPECT_EQ(shared.size(), 10U);
  EXPECT_EQ(recomputed.size(), 4U * 6U);
  // Of stage 3 each kind, of others those without weights; of copies that sum over shards of
  // gradients, weights alone.
  EXPECT_EQ(in_files.size(), 3U * 4U + 5U * 2U + 1U);
  EXPECT_EQ(recomputed_in_files.size(), 4U * 6U);
}

// A run plans once for each place in the model: tensor-parallel rank and stage.
TEST(LayoutMatrix, RanksThatDifferInDataAloneHaveOnePlan) {
  const DeviceChoice kernels{cpu::ProductPrecision::kFp32};
  for (const Layout& layout : covering_layouts()) {
    if (layout.data == 1) continue;
    SCOPED_TRACE(name_of(layout));
    const auto config = legal_config(layout);
    const auto model = make_model(*config, kVocabulary);
    const StepPrograms programs = step_programs(*config);
    for (const RankPlan& place : plan_ranks(*config, *model, programs, kernels)) {
      for (const int rank : place.ranks) {
        if (rank == place.ranks.front()) continue;
        EXPECT_TRUE(plan_memory(*config, *model, programs, rank, kernels) == place.memory)
            << "rank " << rank;
      }
    }
  }
}

// What the comparisons rest on: the run clips, moves its weights and learns.
TEST(LayoutMatrix, TheRunOnOneRankIsWorthComparing) {
  const TrainingResult run = train(*legal_config({}));
  for (const double norm : run.grad_norms)
    EXPECT_GT(norm, 2 * config_of(Layout{}).optimizer.clip_grad);
  EXPECT_LT(run.losses.back(), 0.9 * run.losses.front());
  for (const auto& [name, weights] : run.weights) {
    EXPECT_NE(weights, run.initial_weights.at(name)) << name;
  }
}

TEST(LayoutMatrix, TwiceTheSameLayoutGivesTheSameBits) {
  for (const Layout& layout :
       {Layout{.tensor = 4,
       .data = 2,
       .sequence_parallel = true,
       .zero = {.stage = 3},
       .overlap = Overlap::kReduceAndGather,
       .small_buckets = true,
       .recompute = Recompute::kUniform2,
       .storage = StorageType::kBF16},
        Layout{.data = 8, .overlap = Overlap::kReduce, .small_buckets = true},
        Layout{.tensor = 2, .data = 4, .zero = {.stage = 1}, .fused_attention = false}}) {
    SCOPED_TRACE(name_of(layout));
    const auto config = legal_config(layout);
    ASSERT_TRUE(config.has_value());
    EXPECT_EQ(first_difference(train(*config), train(*config)), "");
  }
}

}  // namespace
}  // namespace phalanx
