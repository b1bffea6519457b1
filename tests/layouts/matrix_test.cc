// The same tiny model, trained on many layouts: bitwise equal where that is promised, equal to
// rounding elsewhere. With PHALANX_SHOW_DISTANCES=1 the distances are printed, one layout a line.

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <optional>
#include <ostream>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "compare.h"
#include "message_formulas.h"
#include "phalanx/train/config_views.h"

namespace phalanx {
namespace {

struct Tolerance {
  double loss, grad_norm, gradient, moment, all_weights;
  std::optional<double> weight;  // none where rounding moves some parameter anywhere
};

// Where the layout adds its sums in another order: of gradients, in fp32, over data-parallel ranks;
// and over tensor-parallel ranks in every layer, where a 16-bit step rounds the result, to 2^-9 in
// bf16 and 2^-12 in fp16. Without these the gradients of step 1 are those of one rank to fp32
// rounding, whatever weights are stored in; from then on stored weights may round otherwise too.
// Adam divides by the size of the gradient, so where that is small, weights move apart faster than
// all of them together do. Everything is at least twice what was measured.
Tolerance tolerance_of(const Layout& layout) {
  const bool is_tensor_parallel = layout.tensor > 1;
  switch (layout.storage) {
    case Storage::kF32:
      return {.loss = 1e-5,
              .grad_norm = 5e-5,
              .gradient = 1e-5,
              .moment = 3e-4,
              .all_weights = 5e-4,
              .weight = 5e-4};
    case Storage::kBF16:
    case Storage::kBF16ResidualF32:
      if (is_tensor_parallel) {
        return {.loss = 2e-3,
                .grad_norm = 3e-2,
                .gradient = 5e-2,
                .moment = 0.1,
                .all_weights = 0.1,
                .weight = {}};
      }
      return {.loss = 5e-4,
              .grad_norm = 8e-3,
              .gradient = 1e-6,
              .moment = 3e-2,
              .all_weights = 2e-2,
              .weight = 3e-2};
    case Storage::kF16:
    case Storage::kF16ResidualF32:
      break;
  }
  if (is_tensor_parallel) {
    return {.loss = 1e-3,
            .grad_norm = 1e-2,
            .gradient = 8e-3,
            .moment = 0.05,
            .all_weights = 4e-2,
            .weight = {}};
  }
  return {.loss = 2e-4,
          .grad_norm = 1e-3,
          .gradient = 1e-6,
          .moment = 5e-3,
          .all_weights = 3e-3,
          .weight = 4e-3};
}

// Trainings that several layouts are compared with are run once.
class Trainings {
 public:
  const TrainingResult& of(const Layout& layout) {
    const std::string name = name_of(layout);
    const auto found = results_.find(name);
    if (found != results_.end()) return found->second;
    const auto config = legal_config(layout);
    PHALANX_CHECK(config.has_value(), "{} is not a layout", name);
    return results_.emplace(name, train(*config)).first->second;
  }

 private:
  std::map<std::string, TrainingResult> results_;  // by the layout's name
};

bool shows_distances() { return std::getenv("PHALANX_SHOW_DISTANCES") != nullptr; }

void expect_close(const TrainingResult& result, const TrainingResult& one_rank,
                  const Layout& layout) {
  const Distance d = distance(result, one_rank);
  const Tolerance t = tolerance_of(layout);
  EXPECT_EQ(result.initial_weights, one_rank.initial_weights);
  EXPECT_LE(d.loss, t.loss);
  EXPECT_LE(d.grad_norm, t.grad_norm);
  EXPECT_LE(d.gradient, t.gradient) << d.gradient_of;
  EXPECT_LE(d.moment, t.moment) << d.moment_of;
  EXPECT_LE(d.all_weights, t.all_weights);
  if (t.weight) {
    EXPECT_LE(d.weight, *t.weight) << d.weight_of;
  }
  if (shows_distances()) {
    fmt::print("{:.1e} {:.1e} {:.1e} {:.1e} {:.1e} {:.1e} {}\n", d.loss, d.grad_norm, d.gradient,
               d.moment, d.all_weights, d.weight, name_of(layout));
  }
}

// Main parameters are fp32, so this is as tight in 16-bit steps.
void expect_step_of_own_gradients(const TrainingResult& result, const TrainConfig& config) {
  const StepError error = error_of_first_step(result, config);
  EXPECT_LE(error.grad_norm, 5e-7);
  EXPECT_LE(error.moment, 1e-6) << error.moment_of;
  EXPECT_LE(error.weight, 5e-5) << error.weight_of;
  if (shows_distances()) {
    fmt::print("step 1: {:.1e} {:.1e} {:.1e}\n", error.grad_norm, error.moment, error.weight);
  }
}

// What every rank began in a step: as planned, as the formulas say, and as much as really moved.
void expect_messages(const TrainingResult& result, const TrainConfig& config) {
  for (std::size_t rank = 0; rank < result.measured.size(); ++rank) {
    SCOPED_TRACE(fmt::format("rank {}", rank));
    const MeasuredStep& step = result.measured[rank];
    EXPECT_EQ(describe(step.recorded), describe(step.planned));
    EXPECT_EQ(describe(step.recorded),
              describe(step_messages(config, kVocabulary, static_cast<int>(rank))));
    EXPECT_EQ(step.bytes_moved, payload(step.recorded));
  }
}

// Sanitizers are slow and look for something else than rounding: the covering set suffices them.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

bool is_nightly() { return !kSanitized && std::getenv("PHALANX_NIGHTLY") != nullptr; }

struct World {
  int tensor, data;
  friend std::ostream& operator<<(std::ostream& out, const World& world) {
    return out << "t" << world.tensor << " d" << world.data;
  }
};

class LayoutMatrix : public testing::TestWithParam<World> {};

TEST_P(LayoutMatrix, TrainsAsOneRankDoes) {
  const auto layouts = layouts_of_world(GetParam().tensor, GetParam().data, is_nightly());
  ASSERT_FALSE(layouts.empty());
  Trainings trainings;
  for (const Layout& layout : layouts) {
    SCOPED_TRACE(name_of(layout));
    const auto config = legal_config(layout);
    const TrainingResult result = train(*config);
    EXPECT_EQ(result.faults, std::vector<std::string>{});
    EXPECT_EQ(result.skipped, std::vector<bool>(kTrainingSteps, false));
    expect_messages(result, *config);
    expect_step_of_own_gradients(result, *config);
    EXPECT_EQ(first_difference(result, trainings.of(without_bitwise_features(layout))), "");
    // The bits of no pipeline: how near these are is the flat layouts' business.
    if (layout.pipeline > 1) continue;
    expect_close(result, trainings.of(on_one_rank(layout)), layout);
  }
}

INSTANTIATE_TEST_SUITE_P(Worlds, LayoutMatrix,
                         testing::Values(World{1, 1}, World{1, 2}, World{1, 4}, World{1, 8},
                                         World{2, 1}, World{2, 2}, World{2, 4}, World{4, 1},
                                         World{4, 2}),
                         [](const auto& world) {
                           return fmt::format("t{}d{}", world.param.tensor, world.param.data);
                         });

TEST(LayoutMatrix, HasEveryWorldScheduleAndKindOfStorage) {
  std::set<std::tuple<int, int, int>> worlds;
  std::set<std::pair<std::string, int>> schedules;  // with the number of stages
  std::set<std::pair<std::string, bool>> even;      // and with whether it divides the layers
  std::map<Storage, int> storages;
  for (const Layout& layout : covering_layouts()) {
    worlds.insert({layout.tensor, layout.pipeline, layout.data});
    ++storages[layout.storage];
    if (layout.pipeline == 1) continue;
    schedules.insert({layout.schedule, layout.pipeline});
    even.insert({layout.schedule, layout.layers % (layout.pipeline * layout.chunks) == 0});
  }
  EXPECT_EQ(worlds.size(), 9U + 13U);
  EXPECT_EQ(schedules.size(), 10U * 4U);
  EXPECT_EQ(even.size(), 10U * 2U);
  EXPECT_EQ(storages.size(), 5U);
}

// A run plans once for each place in the model: tensor-parallel rank and stage.
TEST(LayoutMatrix, RanksThatDifferInDataAloneHaveOnePlan) {
  for (const Layout& layout : covering_layouts()) {
    SCOPED_TRACE(name_of(layout));
    const auto config = legal_config(layout);
    const GptConfig model = gpt_config(*config, kVocabulary);
    const StepPrograms programs = step_programs(*config);
    const auto plan = [&](int rank) {
      return plan_memory(*config, model, programs, rank, cpu::ProductPrecision::kFp32);
    };
    const RankGrid grid = rank_grid(config->layout);
    for (int rank = 0; rank < grid.world_size(); ++rank) {
      const int first = grid.rank_of(
          {.tensor = grid.coordinates(rank).tensor, .pipeline = grid.coordinates(rank).pipeline});
      EXPECT_TRUE(plan(rank) == plan(first)) << "rank " << rank;
    }
  }
}

// What the comparisons rest on: the run clips, moves its weights and learns.
TEST(LayoutMatrix, TheRunOnOneRankIsWorthComparing) {
  const TrainingResult run = train(*legal_config({}));
  for (const double norm : run.grad_norms) EXPECT_GT(norm, 2 * config_of({}).optimizer.clip_grad);
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
       .distributed_optimizer = true,
       .overlap = Overlap::kReduceAndGather,
       .small_buckets = true,
       .recompute = Recompute::kUniform2,
       .storage = Storage::kBF16},
        Layout{.data = 8, .overlap = Overlap::kReduce, .small_buckets = true},
        Layout{.tensor = 2, .data = 4, .distributed_optimizer = true, .fused_attention = false}}) {
    SCOPED_TRACE(name_of(layout));
    const auto config = legal_config(layout);
    ASSERT_TRUE(config.has_value());
    EXPECT_EQ(first_difference(train(*config), train(*config)), "");
  }
}

}  // namespace
}  // namespace phalanx
