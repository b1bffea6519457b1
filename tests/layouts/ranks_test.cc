// Many ranks at work: a program of its own in the thread sanitizer's build, part of layouts_test in
// the others.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "harness.h"

namespace phalanx {
namespace {

// Everything that ranks do for each other at once; what ./test runs under the thread sanitizer, for
// which the matrix takes too long.
TEST(LayoutRanks, FourRanksDoAllTheyCan) {
  const Layout sharded{.tensor = 2,
                       .data = 2,
                       .sequence_parallel = true,
                       .zero = {.stage = 1},
                       .overlap = Overlap::kReduceAndGather,
                       .small_buckets = true,
                       .recompute = Recompute::kUniform1};
  const Layout distributed{.tensor = 2,
                           .data = 2,
                           .overlap = Overlap::kReduce,
                           .small_buckets = true,
                           .recompute = Recompute::kDistributed,
                           .storage = StorageType::kF16ResidualF32};
  const Layout interleaved{.data = 2,
                           .pipeline = 2,
                           .schedule = "interleaved",
                           .chunks = 2,
                           .zero = {.stage = 1},
                           .overlap = Overlap::kReduceAndGather,
                           .small_buckets = true,
                           .layers = 5,
                           .storage = StorageType::kBF16};
  const Layout wave{.tensor = 2,
                    .pipeline = 2,
                    .schedule = "zb-v",
                    .chunks = 2,
                    .sequence_parallel = true,
                    .recompute = Recompute::kUniform1,
                    .layers = 4,
                    .storage = StorageType::kF16};
  const Layout gathered{.tensor = 2,
                        .data = 2,
                        .sequence_parallel = true,
                        .zero = {.stage = 3, .prefetch = 2, .stays_below = 96},
                        .overlap = Overlap::kReduceAndGather,
                        .recompute = Recompute::kUniform2,
                        .storage = StorageType::kBF16};
  const Layout copied{.data = 4, .zero = {.stage = 2, .copies = 2}, .overlap = Overlap::kReduce};
  for (const Layout& layout : {sharded, distributed, interleaved, wave, gathered, copied}) {
    SCOPED_TRACE(name_of(layout));
    const auto config = legal_config(layout);
    ASSERT_TRUE(config.has_value());
    EXPECT_EQ(train(*config, 3).faults, std::vector<std::string>{});
  }
}

}  // namespace
}  // namespace phalanx
