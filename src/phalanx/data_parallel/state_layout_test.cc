#include "phalanx/data_parallel/state_layout.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "phalanx/data_parallel/unit_test_support.h"
#include "phalanx/ops/reduce.h"

namespace phalanx {
namespace {

struct Cut {
  int ranks = 1;
  std::int64_t bucket_size = 0;
  bool gradients = false, weights = false;
  std::int64_t stays_below = -1;

  StateCut of_rank(const UnitChunk& chunk, int rank) const {
    return {.domains = {{.rank = rank, .ranks = ranks}},
            .bucket_size = bucket_size,
            .gradients = gradients,
            .weights = weights,
            .groups = gradients || weights ? chunk.groups(stays_below) : ParamGroups{}};
  }
  std::string name() const {
    return fmt::format("{} ranks, buckets of {}, gradients {}, weights {}, stays {}", ranks,
                       bucket_size, gradients, weights, stays_below);
  }
};

std::vector<Cut> all_cuts_of_states() {
  std::vector<Cut> cuts;
  for (const int ranks : {1, 2, 3, 8}) {
    for (const std::int64_t bucket_size : {0, 1, 20000}) {
      cuts.push_back({ranks, bucket_size});
      cuts.push_back({ranks, bucket_size, true});
      cuts.push_back({ranks, bucket_size, false, true, 0});
      cuts.push_back({ranks, bucket_size, true, true, 0});
      cuts.push_back({ranks, bucket_size, true, true, 97});
    }
  }
  return cuts;
}

TEST(StateLayouts, GiveEveryElementToOneRank) {
  const UnitChunk chunk;
  for (const Cut& cut : all_cuts_of_states()) {
    SCOPED_TRACE(cut.name());
    std::vector<std::vector<int>> updated;  // number of ranks, by parameter and element
    for (const ParamSpec& spec : chunk.table.specs()) {
      updated.emplace_back(static_cast<std::size_t>(spec.local_shape.count()), 0);
    }
    for (int rank = 0; rank < cut.ranks; ++rank) {
      const StateLayout states(chunk.table, cut.of_rank(chunk, rank));
      std::set<std::int64_t> local, weights;
      for (const Segment& segment : states.segments()) {
        EXPECT_EQ(segment.flat,
                  states.flat().offsets[static_cast<std::size_t>(segment.id)] + segment.begin);
        for (std::int64_t i = 0; i < segment.count; ++i) {
          ++updated[static_cast<std::size_t>(segment.id)].at(
              static_cast<std::size_t>(segment.begin + i));
          EXPECT_TRUE(local.insert(segment.local + i).second);
          EXPECT_TRUE(weights.insert(segment.weight + i).second);
        }
      }
      if (local.empty()) continue;  // a shard of padding only
      EXPECT_LT(*local.rbegin(), states.shard_elements());
      EXPECT_LT(*weights.rbegin(), states.weight_elements());
    }
    for (const auto& times : updated) EXPECT_EQ(times, std::vector<int>(times.size(), 1));
  }
}

// Each bucket belongs to one group, in the order of sending. A rank's parts of them are adjacent in
// its shard.
TEST(StateLayouts, BucketsAreCutIntoEqualParts) {
  const UnitChunk chunk;
  for (const Cut& cut : all_cuts_of_states()) {
    SCOPED_TRACE(cut.name());
    for (int rank = 0; rank < cut.ranks; ++rank) {
      const StateLayout states(chunk.table, cut.of_rank(chunk, rank));
      std::int64_t begin = 0, local = 0, weights = 0;
      std::set<std::size_t> holding;
      for (std::size_t b = 0; b < states.buckets().size(); ++b) {
        const StateLayout::Bucket& bucket = states.buckets()[b];
        EXPECT_EQ(bucket.range.begin, begin);
        begin = bucket.range.end();
        const FlatRange& region = states.flat().regions[static_cast<std::size_t>(bucket.group)];
        EXPECT_GE(bucket.range.begin, region.begin);
        EXPECT_LE(bucket.range.end(), region.end());
        EXPECT_EQ(bucket.own.count * cut.ranks, bucket.range.count);
        EXPECT_EQ(bucket.own.begin, bucket.range.begin + rank * bucket.own.count);
        if (cut.ranks > 1) {
          EXPECT_EQ(bucket.own.begin % ops::kSumBlock, 0);
        }
        EXPECT_EQ(bucket.local, local);
        local += bucket.own.count;
        EXPECT_EQ(bucket.weights, weights);
        weights += states.cuts_weights(bucket.group) ? bucket.own.count : bucket.range.count;
      }
      EXPECT_EQ(begin, states.flat().elements);
      EXPECT_EQ(local, states.shard_elements());
      EXPECT_EQ(weights, states.weight_elements());
      EXPECT_EQ(states.shard_elements() * cut.ranks, states.flat().elements);
      for (ParamId id = 0; id < chunk.table.size(); ++id) {
        for (const std::size_t b : states.buckets_of(id)) {
          EXPECT_EQ(states.buckets()[b].group, states.group(id));
        }
      }
    }
  }
}

// Uncut weights are at their place in the flat buffer; a group that stays is whole, although others
// are cut.
TEST(StateLayouts, WeightsThatStayAreWhole) {
  const UnitChunk chunk;
  for (const Cut& cut : all_cuts_of_states()) {
    SCOPED_TRACE(cut.name());
    const StateLayout states(chunk.table, cut.of_rank(chunk, cut.ranks - 1));
    EXPECT_EQ(states.is_sharded(), cut.ranks > 1);
    EXPECT_EQ(states.cuts_gradients(), cut.gradients);
    EXPECT_EQ(states.cuts_weights(), cut.ranks > 1 && cut.weights);
    for (ParamId id = 0; id < chunk.table.size(); ++id) {
      const std::int64_t count = chunk.table[id].local_shape.count();
      const bool is_cut = cut.weights && cut.ranks > 1 && count > cut.stays_below;
      EXPECT_EQ(states.cuts_weights(states.group(id)), is_cut) << chunk.table[id].name;
      if (is_cut) continue;
      const std::int64_t offset = states.weight_offset(id);
      EXPECT_LE(offset + count, states.weight_elements());
      if (!states.cuts_weights()) {
        EXPECT_EQ(offset, states.flat().offsets[static_cast<std::size_t>(id)]);
      }
      for (const Segment& segment : states.segments()) {
        if (segment.id == id) {
          EXPECT_EQ(segment.weight, offset + segment.begin);
        }
      }
    }
  }
}

TEST(StateLayouts, WithoutACutAParameterIsOneSegment) {
  const UnitChunk chunk;
  const StateLayout states(chunk.table, {.gradients = true, .weights = true});
  ASSERT_EQ(std::ssize(states.segments()), chunk.table.size());
  for (ParamId id = 0; id < chunk.table.size(); ++id) {
    const Segment& segment = states.segments()[static_cast<std::size_t>(id)];
    EXPECT_EQ(segment.id, id);
    EXPECT_EQ(segment.begin, 0);
    EXPECT_EQ(segment.count, chunk.table[id].local_shape.count());
    EXPECT_EQ(segment.local, segment.flat);
  }
}

// At any cut: they have no element of a gradient or a state, and their weights lie behind all
// others.
TEST(StateLayouts, ParametersThatAreNotTrainedHaveAWeightAlone) {
  nn::ParamTable table;
  table.freeze([](const std::string& name) { return name == "b" || name == "d"; });
  for (const char* name : {"a", "b", "c", "d"}) {
    table.add(whole_parameter(name, {70, 100}, DType::kF32, {}));
  }
  for (const int ranks : {1, 3}) {
    const StateLayout states(table, {.domains = {{.ranks = ranks}}});
    std::set<ParamId> in_shard;
    for (const Segment& segment : states.segments()) in_shard.insert(segment.id);
    EXPECT_EQ(in_shard.contains(1) || in_shard.contains(3), false);
    EXPECT_EQ(states.flat().offsets[1], -1);
    // As in the whole model, so that sums of blocks have the same bits.
    for (const ParamId id : {0, 2}) {
      const auto i = static_cast<std::size_t>(id);
      EXPECT_EQ((states.flat().offsets[i] - states.places().offsets[i]) % ops::kSumBlock, 0);
    }
    std::int64_t end = states.flat().elements;
    ASSERT_EQ(states.frozen().size(), 2U);
    for (const Segment& segment : states.frozen()) {
      EXPECT_FALSE(table.trains(segment.id));
      EXPECT_EQ(segment.count, 7000);
      EXPECT_GE(segment.weight, end);
      EXPECT_EQ(states.weight_offset(segment.id), segment.weight);
      EXPECT_GE(segment.tile, std::ssize(states.tiles()));
      EXPECT_TRUE(states.buckets_of(segment.id).empty());
      end = segment.weight + segment.count;
    }
    EXPECT_EQ(states.weight_elements(), end);
  }
}

// Of all ranks with the same numbers, one of each copy of the model counts them in its norm.
TEST(StateLayouts, OneRankOfEachCopyCounts) {
  nn::ParamTable table;
  table.add(whole_parameter("everywhere", {5}, DType::kF32, {}));
  table.add(row_cut_parameter("cut", {6, 2}, DType::kF32, {}, 0, 2));
  ModelPlaces places = whole_model_places(table);
  for (const bool counted : {true, false}) {
    places.counted.assign(2, counted);
    for (const bool first : {true, false}) {
      const StateLayout states(table, places,
                               {.domains = {{.ranks = 2, .first_tensor_rank = first}}});
      for (const ParamId id : {0, 1}) {
        EXPECT_EQ(states.counts(id), counted && (id == 1 || first));
        EXPECT_EQ(states.summed_elements(id), counted ? table[id].local_shape.count() : 0);
      }
    }
  }
}

}  // namespace
}  // namespace phalanx
