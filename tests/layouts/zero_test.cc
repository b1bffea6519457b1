// States that data-parallel ranks share, stage by stage: the same bits wherever the same numbers
// are added in the same order. (Pairs of all this with everything else are the matrix's.)

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "compare.h"
#include "expectations.h"
#include "phalanx/rules/resolve.h"

namespace phalanx {
namespace {

constexpr int kSteps = 4;

TrainingResult trained(const Layout& layout) {
  const auto config = legal_config(layout);
  PHALANX_CHECK(config.has_value(), "{} is not a layout", name_of(layout));
  TrainingResult result = train(*config, kSteps);
  EXPECT_EQ(result.faults, std::vector<std::string>{});
  EXPECT_EQ(result.skipped, std::vector<bool>(kSteps, false));
  return result;
}

// Sums over ranks are added to nothing.
TEST(ZeroStages, OfOneMicrobatchHaveTheBitsOfNoSharing) {
  for (Layout layout :
       {Layout{.data = 2, .micro_batch = 8}, Layout{.data = 4, .micro_batch = 4, .tied = false},
        Layout{.data = 8, .micro_batch = 2, .storage = StorageType::kF16},
        Layout{.tensor = 2,
        .data = 2,
        .sequence_parallel = true,
        .recompute = Recompute::kUniform2,
        .micro_batch = 8,
        .storage = StorageType::kBF16},
        Layout{.tensor = 2, .data = 2, .micro_batch = 8, .groups = 1}}) {
    const TrainingResult plain = trained(layout);
    for (const Sharding& zero :
         {Sharding{.stage = 1}, Sharding{.stage = 2}, Sharding{.stage = 3},
          Sharding{.stage = 2, .accumulate_unsharded = true},
          Sharding{.stage = 3, .accumulate_unsharded = true, .stays_below = 96}}) {
      layout.zero = zero;
      SCOPED_TRACE(name_of(layout));
      EXPECT_EQ(first_difference(trained(layout), plain), "");
    }
  }
}

// How the weights come and the sums go is of no matter.
TEST(ZeroStages, TwoAndThreeHaveTheSameBitsHoweverTheyAreSent) {
  const Layout second{.data = 2, .zero = {.stage = 2}, .layers = 4};
  const TrainingResult sums = trained(second);
  std::vector<Sharding> ways = {{.stage = 2}};
  for (const int prefetch : {0, 1, 2, 3, 100}) {
    ways.push_back({.stage = 3, .prefetch = prefetch});
    ways.push_back({.stage = 3, .prefetch = prefetch, .stays_below = 96, .reshard = false});
  }
  // Word tables alone; vectors alone; nothing.
  for (const std::int64_t stays_below : {32 * 64, 32, 1 << 20}) {
    ways.push_back({.stage = 3, .stays_below = stays_below});
  }
  int number = 0;
  for (const Sharding& zero : ways) {
    Layout layout = second;
    layout.zero = zero;
    layout.overlap = static_cast<Overlap>(number % 3);
    layout.small_buckets = number % 2 == 0;
    layout.recompute = static_cast<Recompute>(number++ % 5);
    SCOPED_TRACE(name_of(layout));
    EXPECT_EQ(first_difference(trained(layout), sums), "");
  }
}

// Of copies of shards too, with what is read and written as the formulas have it.
TEST(ZeroStages, FilesOfCopiesHaveTheBitsOfMemory) {
  for (const Sharding& zero :
       {Sharding{.stage = 1, .copies = 2},
        Sharding{.stage = 2, .copies = 2, .accumulate_unsharded = true},
        Sharding{.stage = 3, .copies = 2, .accumulate_unsharded = true, .stays_below = 96},
        Sharding{.stage = 3, .copies = 2, .prefetch = 2}}) {
    Layout layout{.data = 4, .zero = zero, .storage = StorageType::kBF16};
    const TrainingResult memory = trained(layout);
    for (const Files files : {Files::kOptimizer, Files::kParameters, Files::kBoth, Files::kHalf}) {
      layout.files = files;
      const auto config = legal_config(layout);
      if (!config) continue;
      SCOPED_TRACE(name_of(layout));
      const TrainingResult result = trained(layout);
      EXPECT_EQ(first_difference(result, memory), "");
      expect_traffic(result, *config);
    }
  }
}

// What the tests above rest on: with several microbatches, and with several copies, sums are
// others.
TEST(ZeroStages, SumsOfSeveralMicrobatchesOrCopiesAreOthersToRounding) {
  Layout layout{.data = 4, .zero = {.stage = 1}};
  const TrainingResult one = trained(layout);
  for (const Sharding& zero :
       {Sharding{.stage = 2}, Sharding{.stage = 3}, Sharding{.stage = 1, .copies = 2}}) {
    layout.zero = zero;
    SCOPED_TRACE(name_of(layout));
    const TrainingResult other = trained(layout);
    EXPECT_NE(first_difference(other, one), "");
    EXPECT_LE(distance(other, one).gradient, 1e-6);
    EXPECT_LE(distance(other, one).all_weights, 1e-4);
  }
}

// A copy of its own for every rank is no sharing.
TEST(ZeroStages, OfARankAloneAreNone) {
  const TrainingResult plain = trained({.data = 2});
  for (const int stage : {1, 2, 3}) {
    TrainConfig config = config_of({.data = 2, .zero = {.stage = stage, .copies = 2}});
    resolve(config, false);
    EXPECT_EQ(first_difference(train(config, kSteps), plain), "") << "stage " << stage;
  }
}

}  // namespace
}  // namespace phalanx
