// Fewer groups of keys and values than tensor-parallel ranks: neighbours have the same rows of
// linear_qkv, each with a part of the gradient. It is the training of one rank all the same, and of
// one bit pattern under everything that must not change a bit.

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "compare.h"
#include "expectations.h"

namespace phalanx {
namespace {

constexpr int kSteps = 3;

std::vector<Layout> layouts() {
  return {
      {.tensor = 2, .groups = 2},
      {.tensor = 2, .groups = 1},
      {.tensor = 2, .sequence_parallel = true, .micro_batch = 2, .tied = false, .groups = 1},
      {.tensor = 4, .groups = 2},
      {.tensor = 4, .async_reduce = false, .groups = 1},
      {.tensor = 4, .sequence_parallel = true, .recompute = Recompute::kUniform2, .groups = 2},
      {.tensor = 4,
       .recompute = Recompute::kSelective,
       .fused_attention = false,
       .storage = StorageType::kBF16,
       .groups = 2},
      {.tensor = 2,
       .data = 2,
       .zero = {.stage = 1},
       .overlap = Overlap::kReduceAndGather,
       .small_buckets = true,
       .groups = 1},
      {.tensor = 4,
       .data = 2,
       .sequence_parallel = true,
       .zero = {.stage = 1},
       .small_buckets = true,
       .recompute = Recompute::kBlock2,
       .storage = StorageType::kBF16ResidualF32,
       .groups = 2},
      {.tensor = 2,
       .data = 2,
       .overlap = Overlap::kReduce,
       .storage = StorageType::kF16,
       .groups = 1},
      {.tensor = 2, .data = 2, .zero = {.stage = 2}, .small_buckets = true, .groups = 1},
      {.tensor = 4,
       .data = 2,
       .sequence_parallel = true,
       .zero = {.stage = 3, .stays_below = 96},
       .overlap = Overlap::kReduce,
       .storage = StorageType::kBF16,
       .groups = 2},
      {.tensor = 2, .pipeline = 2, .schedule = "1f1b", .chunks = 1, .layers = 4, .groups = 1},
      {.tensor = 4,
       .pipeline = 2,
       .schedule = "zb-v",
       .chunks = 2,
       .sequence_parallel = true,
       .layers = 4,
       .groups = 1},
      {.tensor = 2,
       .data = 2,
       .pipeline = 2,
       .schedule = "interleaved",
       .chunks = 2,
       .zero = {.stage = 1},
       .layers = 4,
       .storage = StorageType::kBF16,
       .groups = 1},
  };
}

TEST(QueryGroups, TrainAsOneRankDoes) {
  Trainings trainings;
  for (const Layout& layout : layouts()) {
    SCOPED_TRACE(name_of(layout));
    const TrainingResult result = expect_training(layout, kSteps, trainings);
    expect_traffic(result, *legal_config(layout));
    if (layout.pipeline > 1) continue;
    expect_close(result, trainings.of(on_one_rank(layout), kSteps), layout);
  }
}

}  // namespace
}  // namespace phalanx
