#include "phalanx/data_parallel/gradient_store.h"

#include <gtest/gtest.h>

#include "phalanx/data_parallel/unit_test_support.h"
#include "phalanx/ops/elementwise.h"

namespace phalanx {
namespace {

using nn::values_of;

StateCut cut_of(const UnitChunk& chunk, bool gradients) {
  return {.domains = {{.rank = 1, .ranks = 2}},
          .gradients = gradients,
          .groups = gradients ? chunk.groups() : ParamGroups{}};
}

TEST(CutGradients, KeepOnlyTheShard) {
  const UnitChunk chunk;
  const StoreRank whole(chunk.table, cut_of(chunk, false));
  const StoreRank cut(chunk.table, cut_of(chunk, true));
  EXPECT_EQ(whole.gradients.flat().count(), whole.parameters.states().flat().elements);
  EXPECT_EQ(cut.gradients.flat().count(), cut.parameters.states().shard_elements());
  const StateLayout& states = cut.parameters.states();
  set_each(cut.gradients.flat(), [](std::int64_t i) { return static_cast<double>(i); });
  for (const Segment& segment : states.segments()) {
    EXPECT_EQ(values_of(cut.gradients.gradient(segment)).front(),
              static_cast<double>(segment.local));
  }
  for (std::size_t b = 0; b < states.buckets().size(); ++b) {
    const StateLayout::Bucket& bucket = states.buckets()[b];
    EXPECT_EQ(cut.gradients.own(b).count(), bucket.own.count);
    EXPECT_EQ(values_of(cut.gradients.own(b)).front(), static_cast<double>(bucket.local));
  }
  set_each(whole.gradients.flat(), [](std::int64_t i) { return static_cast<double>(i); });
  for (const Segment& segment : whole.parameters.states().segments()) {
    EXPECT_EQ(values_of(whole.gradients.gradient(segment)).front(),
              static_cast<double>(segment.flat));
  }
}

// Passes add to the memory that was placed last.
TEST(CutGradients, AreWholeInThePlacedMemory) {
  const UnitChunk chunk;
  StoreRank rank(chunk.table, cut_of(chunk, true));
  const StateLayout& states = rank.parameters.states();
  for (std::size_t b = 0; b < states.buckets().size(); ++b) {
    EXPECT_THROW(rank.gradients.whole(b), InternalError);
  }
  const nn::Gradients passes = rank.gradients.gradients();
  for (int time = 0; time < 2; ++time) {
    for (int group = 0; group < states.groups().size(); ++group) {
      const FlatRange& region = states.flat().regions[static_cast<std::size_t>(group)];
      const Tensor memory = rank.memory.allocate(DType::kF64, {region.count});
      set_each(memory, [&](std::int64_t i) {
        return static_cast<double>(1000000 * time + region.begin + i);
      });
      rank.gradients.place_group(group, memory);
    }
    for (ParamId id = 0; id < chunk.table.size(); ++id) {
      EXPECT_EQ(passes[id].shape, chunk.table[id].local_shape);
      EXPECT_EQ(values_of(passes[id]).front(),
                static_cast<double>(1000000 * time +
                                    states.flat().offsets[static_cast<std::size_t>(id)]));
    }
    // The head adds in place, the embedding to its accumulator.
    EXPECT_EQ(passes[chunk.head].data(), passes[chunk.head.id].data());
    EXPECT_NE(passes[chunk.embedding].data(), passes[chunk.embedding.id].data());
    for (std::size_t b = 0; b < states.buckets().size(); ++b) {
      EXPECT_EQ(values_of(rank.gradients.whole(b)).front(),
                static_cast<double>(1000000 * time + states.buckets()[b].range.begin));
    }
  }
}

// The roles of a shared parameter are summed in the placed memory.
TEST(CutGradients, JoinRolesInThePlacedMemory) {
  const UnitChunk chunk;
  StoreRank rank(chunk.table, cut_of(chunk, true));
  const FlatRange& region = rank.parameters.states().flat().regions[0];
  const nn::Gradients passes = rank.gradients.gradients();
  for (const double head : {2.0, 5.0}) {
    rank.gradients.begin_update();
    EXPECT_THROW(rank.gradients.expect_complete(), InternalError);
    rank.gradients.place_group(0, rank.memory.allocate(DType::kF64, {region.count}));
    ops::fill(rank.context, {.x = passes[chunk.head], .value = head});
    ops::fill(rank.context, {.x = passes[chunk.embedding], .value = 0.25});
    rank.gradients.join_all(rank.context);
    const Values sum = values_of(rank.gradients.gradient(chunk.head.id));
    EXPECT_EQ(sum, Values(sum.size(), head + 0.25));
  }
}

}  // namespace
}  // namespace phalanx
