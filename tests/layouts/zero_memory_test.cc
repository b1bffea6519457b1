// What states take that data-parallel ranks share: the plan against the published formulas.

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "message_formulas.h"
#include "phalanx/base/numeric.h"
#include "phalanx/families/family.h"
#include "phalanx/flag_table/test_support.h"
#include "phalanx/rehearsal/memory_plan.h"
#include "phalanx/rules/resolve.h"
#include "phalanx/settings/config_views.h"

namespace phalanx {
namespace {

struct SharedStates {
  bool bf16 = true;
  std::int64_t data = 8;
  std::int64_t stage = 0;
  bool unsharded = false;  // sums of microbatches
  std::int64_t copies = 1;
  std::int64_t prefetch = 1;
  std::int64_t layers = 3;
  std::int64_t hidden = 96;
  std::int64_t heads = 4;
  std::int64_t vocabulary = 500;

  std::int64_t ranks() const { return stage == 0 ? 1 : data / copies; }
};

TrainConfig config_with(const SharedStates& c) {
  TrainConfig config;
  config.model.num_layers = c.layers;
  config.model.hidden_size = c.hidden;
  config.model.num_attention_heads = c.heads;
  set_flags(config,
            "--seq-length 32 --max-position-embeddings 32 --micro-batch-size 1 --threads-per-rank "
            "1 --untie-embeddings-and-output-weights");
  config.model.bf16 = c.bf16;
  config.layout.world_size = c.data;
  config.layout.zero_stage = c.stage;
  config.layout.zero_accumulate_unsharded = c.unsharded;
  config.layout.num_distributed_optimizer_instances = c.copies;
  if (c.stage == 3) {
    config.layout.zero_persistence_threshold = 0;
    config.layout.zero_prefetch_depth = c.prefetch;
  }
  resolve(config, false);
  return config;
}

MemoryPlan plan_of(const SharedStates& c) {
  const TrainConfig config = config_with(c);
  return plan_memory(config, *make_model(config, c.vocabulary), step_programs(config), 0,
                     {cpu::ProductPrecision::kFp32});
}

std::int64_t in_arena(std::int64_t bytes) { return round_up(bytes, kArenaAlignment); }

// Of n ranks that share a copy, bytes of a parameter: with bf16 weights and fp32 sums 18, 6 + 12/n,
// 2 + 16/n, 18/n; in fp32 16, 8 + 8/n, 4 + 12/n, 16/n.
double published_bytes(const SharedStates& c) {
  const auto n = static_cast<double>(c.ranks());
  const double weights = c.bf16 ? 2.0 : 4.0;
  const double updated = c.bf16 ? 12.0 : 8.0;
  const bool cuts_gradients = c.stage >= 2 && !c.unsharded;
  return (c.stage == 3 ? weights / n : weights) + (cuts_gradients ? 4.0 / n : 4.0) + updated / n;
}

TEST(SharedStateMemory, IsThePublishedBytesPerParameterWithThePadding) {
  for (const bool bf16 : {false, true}) {
    for (const std::int64_t data : {2, 3, 8, 64}) {
      for (const SharedStates& c :
           {SharedStates{.bf16 = bf16, .data = data}, SharedStates{bf16, data, 1},
            SharedStates{bf16, data, 2}, SharedStates{bf16, data, 2, true},
            SharedStates{bf16, data, 3}, SharedStates{bf16, data, 3, true},
            SharedStates{bf16, 2 * data, 3, false, 2}}) {
        SCOPED_TRACE(fmt::format("bf16 {} d {} stage {} unsharded {} copies {}", c.bf16, c.data,
                                 c.stage, c.unsharded, c.copies));
        const FlatSizes flat = flat_sizes(config_with(c), c.vocabulary);
        const MemoryPlan plan = plan_of(c);
        const std::int64_t shard = flat.elements / c.ranks();
        const bool cuts_gradients = c.stage >= 2 && !c.unsharded;
        EXPECT_EQ(plan.bytes["parameters"],
                  in_arena((bf16 ? 2 : 4) * (c.stage == 3 ? shard : flat.elements)));
        EXPECT_EQ(plan.bytes["main_parameters"], bf16 ? in_arena(4 * shard) : 0);
        EXPECT_EQ(plan.bytes["gradients"], in_arena(4 * (cuts_gradients ? shard : flat.elements)));
        EXPECT_EQ(plan.bytes["optimizer"], 2 * in_arena(4 * shard));
        const auto bytes =
            static_cast<double>(plan.bytes["parameters"] + plan.bytes["main_parameters"] +
                                plan.bytes["gradients"] + plan.bytes["optimizer"]);
        EXPECT_NEAR(bytes, published_bytes(c) * static_cast<double>(flat.elements),
                    5.0 * kArenaAlignment);
        // Padding: of parameters, of the vocabulary, and of each region to a
        // block for every rank and in front of its first parameter.
        const std::int64_t padding = flat.elements - plan.model_parameters;
        EXPECT_GE(padding, 0);
        EXPECT_LT(padding, 64 * flat.parameters + 2 * 128 * c.hidden +
                               std::ssize(flat.regions) * (c.ranks() + 1) * 4096);
      }
    }
  }
}

std::int64_t largest_region(const SharedStates& c) {
  const FlatSizes flat = flat_sizes(config_with(c), c.vocabulary);
  return std::ranges::max_element(flat.regions, {}, &FlatSizes::Region::elements)->elements;
}

// Beside what microbatches save: a unit's weights and of each that is gathered ahead, and a unit's
// gradients, and what packing them loses, less than another; however many layers there are.
TEST(SharedStateMemory, OfUnitsAtWorkIsThatOfFew) {
  for (const std::int64_t prefetch : {0, 1, 2}) {
    for (const std::int64_t layers : {4, 12}) {
      SCOPED_TRACE(fmt::format("prefetch {}, {} layers", prefetch, layers));
      SharedStates c{.stage = 1, .prefetch = prefetch, .layers = layers};
      const std::int64_t plain = plan_of(c).bytes["saved"];
      c.stage = 2;
      const std::int64_t gradients = plan_of(c).bytes["saved"] - plain;
      EXPECT_GE(gradients, 0);
      EXPECT_LE(gradients, 4 * largest_region(c));
      c.stage = 3;
      c.unsharded = true;
      const std::int64_t weights = plan_of(c).bytes["saved"] - plain;
      EXPECT_GT(weights, 0);
      EXPECT_LE(weights, 2 * (prefetch + 2) * largest_region(c));
    }
  }
}

// Rajbhandari et al., 2020: a model of 7.5e9 parameters on 64 ranks, in 10^9 bytes, with parameters
// and gradients of 2 bytes and 12 bytes of what the optimizer keeps.
TEST(SharedStateMemory, OfSevenAndAHalfBillionParametersIsThePublishedTable) {
  constexpr double kParameters = 7.5e9;
  SharedStates c{.data = 64, .layers = 35, .hidden = 4096, .heads = 32, .vocabulary = 50257};
  for (const double published : {120.0, 31.4, 16.6, 1.9}) {
    const MemoryPlan plan = plan_of(c);
    const auto model = static_cast<double>(plan.model_parameters);
    EXPECT_NEAR(model, kParameters, 0.01 * kParameters);
    const double bytes =
        static_cast<double>(plan.bytes["parameters"]) +
        static_cast<double>(plan.bytes["gradients"]) / 4 * 2 +
        static_cast<double>(plan.bytes["main_parameters"] + plan.bytes["optimizer"]);
    EXPECT_NEAR(bytes / model * kParameters / 1e9, published, 0.002 * published + 0.05)
        << "stage " << c.stage;
    ++c.stage;
  }
}

// What DeepSpeed estimates of stage 2, whose gradients are whole and of 2 bytes beside their parts:
// 4 bytes of a parameter, and 16 over all ranks.
TEST(SharedStateMemory, OfTheSecondStageIsTwoBytesAndSixteenOverAllRanks) {
  for (const std::int64_t data : {4, 64}) {
    SharedStates c{.data = data, .layers = 24, .hidden = 2048, .heads = 16, .vocabulary = 50257};
    c.stage = 2;
    const MemoryPlan plan = plan_of(c);
    const auto model = static_cast<double>(plan.model_parameters);
    const auto states =
        static_cast<double>(plan.bytes["parameters"] + plan.bytes["main_parameters"] +
                            plan.bytes["gradients"] + plan.bytes["optimizer"]);
    const double estimate = 4.0 * model + 16.0 * model / static_cast<double>(data);
    EXPECT_NEAR(states + 2.0 * model, estimate, 0.01 * estimate);
  }
}

// What DeepSpeed estimates of stage 3: 18 bytes of a parameter over all ranks, and the largest
// layer's parameters, here of 2 bytes, and gradients, of 4.
TEST(SharedStateMemory, OfTheThirdStageIsEighteenBytesOverAllRanksAndTheLargestLayer) {
  for (const std::int64_t data : {4, 64}) {
    SharedStates c{.data = data,
                   .prefetch = 0,
                   .layers = 24,
                   .hidden = 2048,
                   .heads = 16,
                   .vocabulary = 50257};
    const std::int64_t plain = plan_of(c).bytes["saved"];
    c.stage = 3;
    const MemoryPlan plan = plan_of(c);
    const auto states =
        static_cast<double>(plan.bytes["parameters"] + plan.bytes["main_parameters"] +
                            plan.bytes["gradients"] + plan.bytes["optimizer"]);
    const double estimate =
        18.0 * static_cast<double>(plan.model_parameters) / static_cast<double>(data);
    EXPECT_GE(states, estimate);
    EXPECT_LE(states, 1.01 * estimate);
    EXPECT_LE(plan.bytes["saved"] - plain, 6 * largest_region(c));
  }
}

}  // namespace
}  // namespace phalanx
