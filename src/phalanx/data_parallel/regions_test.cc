// Flat layouts of parts of a model: one region per chunk, and every parameter at the same offset in
// its sum block as in the whole model.

#include <gtest/gtest.h>

#include <algorithm>

#include "phalanx/data_parallel/flat_layout.h"
#include "phalanx/data_parallel/stages_test_support.h"
#include "phalanx/ops/reduce.h"

namespace phalanx {
namespace {

template <typename Check>
void for_each_part(const Check& check) {
  for (const StageCut& cut : all_cuts()) {
    for (int rank = 0; rank < cut.size(); ++rank) {
      for (const int shards : {1, 2, 3, 4}) {
        SCOPED_TRACE(fmt::format("{}, rank {}, {} shards", cut.name, rank, shards));
        const StagePart part = stage_part(cut, rank);
        const ModelPlaces places = places_of(part, cut, rank);
        check(part.table, places, flat_layout(part.table, places, shards), shards);
      }
    }
  }
}

TEST(Regions, ParametersKeepTheirOffsetsInSumBlocks) {
  for_each_part([](const nn::ParamTable& table, const ModelPlaces& places, const FlatLayout& layout,
                   int /*shards*/) {
    for (std::size_t i = 0; i < layout.offsets.size(); ++i) {
      EXPECT_EQ(layout.offsets[i] % ops::kSumBlock, places.offsets[i] % ops::kSumBlock)
          << table.specs()[i].name;
    }
  });
}

// Regions are adjacent, the last chunk's first, and start at multiples of the shard grid.
TEST(Regions, AreConsecutiveOnTheGridOfShards) {
  for_each_part([](const nn::ParamTable& table, const ModelPlaces& /*places*/,
                   const FlatLayout& layout, int shards) {
    ASSERT_EQ(static_cast<int>(layout.regions.size()), table.num_chunks());
    std::int64_t end = 0;
    for (std::size_t chunk = layout.regions.size(); chunk-- > 0;) {
      const FlatRange& region = layout.regions[chunk];
      EXPECT_EQ(region.begin, end);
      EXPECT_EQ(region.begin % (shards * ops::kSumBlock), 0);
      end = region.end();
    }
    EXPECT_EQ(end, layout.elements);
    if (shards > 1) {
      EXPECT_EQ(layout.elements % (shards * ops::kSumBlock), 0);
    }
  });
}

TEST(Regions, HaveTheParametersOfTheirChunksInOrder) {
  for_each_part([](const nn::ParamTable& table, const ModelPlaces& places, const FlatLayout& layout,
                   int /*shards*/) {
    std::int64_t end = 0;
    for (ParamId id = table.size(); id-- > 0;) {
      const std::int64_t offset = layout.offsets[static_cast<std::size_t>(id)];
      const FlatRange& region = layout.regions[static_cast<std::size_t>(table.chunk(id))];
      end = std::max(end, region.begin);
      EXPECT_GE(offset, end) << table[id].name;
      // Neighbours in the model are neighbours here. Gaps are only before a region's first
      // parameter and around a copy.
      const bool follows = offset > region.begin && end > region.begin &&
                           !is_uncounted(places, id) && !is_uncounted(places, id + 1);
      EXPECT_LT(offset - end, follows ? 64 : ops::kSumBlock) << table[id].name;
      end = offset + table[id].local_shape.count();
      EXPECT_LE(end, region.end()) << table[id].name;
    }
  });
}

TEST(Regions, NoBucketSpansTwo) {
  for_each_part([](const nn::ParamTable& /*table*/, const ModelPlaces& /*places*/,
                   const FlatLayout& layout, int shards) {
    for (const std::int64_t size : {0, 1, 20000, 1 << 30}) {
      const auto buckets = cut_buckets(layout, size);
      std::int64_t end = 0;
      for (const FlatRange& bucket : buckets) {
        EXPECT_EQ(bucket.begin, end);
        EXPECT_GT(bucket.count, 0);
        end = bucket.end();
        EXPECT_EQ(std::ranges::count_if(layout.regions,
                                        [&](const FlatRange& region) {
                                          return bucket.begin < region.end() &&
                                                 region.begin < bucket.end();
                                        }),
                  1);
        if (shards > 1) {
          EXPECT_EQ(bucket.count % (shards * ops::kSumBlock), 0);
        }
      }
      EXPECT_EQ(end, layout.elements);
      if (size == 0 || size == 1 << 30) {
        EXPECT_EQ(buckets.size(), layout.regions.size());
      }
    }
  });
}

TEST(Regions, OfTheWholeModelHaveNoGap) {
  const nn::ParamTable table = stage_part(whole_model(), 0).table;
  for (const int shards : {1, 2, 4}) {
    const FlatLayout layout = flat_layout(table, shards);
    EXPECT_EQ(layout.offsets, whole_model_places(table).offsets);
    EXPECT_EQ(layout.regions.size(), 1U);
    EXPECT_EQ(layout.regions[0].begin, 0);
    EXPECT_EQ(layout.regions[0].count, layout.elements);
  }
  // After the last parameter there is only alignment.
  EXPECT_LT(flat_layout(table).elements - (flat_layout(table).offsets[0] + 104 * 97), 64);
}

}  // namespace
}  // namespace phalanx
