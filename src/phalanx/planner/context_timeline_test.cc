#include "phalanx/planner/context_timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "phalanx/base/error.h"
#include "phalanx/nn/ring_attention.h"
#include "phalanx/planner/test_support.h"

namespace phalanx {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Part = ContextTimeline::Part;

RunPlan planned_context(const std::string& flags, std::int64_t world = 4) {
  return planned(with_flags(planned_config(world), flags));
}

std::vector<int> sources(const Part& part) {
  std::vector<int> found;
  for (const auto& attention : part.attention) found.push_back(attention.source);
  return found;
}

std::int64_t sent(const Part& part, std::string_view op, bool gradients) {
  std::int64_t bytes = 0;
  for (const auto& move : part.moves) {
    if (move.op == op && move.has_gradients == gradients) bytes += move.bytes;
  }
  return bytes;
}

// The messages that were noted bring the blocks in the order that the layer says.
TEST(ContextTimeline, BlocksOfARing) {
  const ContextTimeline timeline = context_timeline(planned_context("--context-parallel-size 4"));
  ASSERT_EQ(timeline.rows.size(), 4U);
  for (int rank = 0; rank < 4; ++rank) {
    const ContextTimeline::Row& row = timeline.rows[static_cast<std::size_t>(rank)];
    EXPECT_EQ(row.rank, rank);
    std::vector<int> expected;
    for (int step = 0; step < 4; ++step) {
      expected.push_back(nn::ring_source(rank, step, 4));
      EXPECT_EQ(nn::ring_step(rank, expected.back(), 4), step);
    }
    EXPECT_EQ(sources(row.forward), expected);
    EXPECT_EQ(sources(row.backward), expected);
    // Gradients of a block go to its owner, after the attention to it.
    std::vector<int> owners;
    for (const auto& move : row.backward.moves) {
      if (!move.has_gradients) continue;
      owners.push_back(move.to);
      const auto part =
          std::ranges::find(row.backward.attention, move.to, &ContextTimeline::Attention::source);
      EXPECT_EQ(move.begin, part->end);
      EXPECT_GT(move.done, move.begin);
    }
    EXPECT_EQ(owners, std::vector<int>(expected.begin() + 1, expected.end()));
    // The next block comes during attention to the present one.
    for (std::size_t step = 0; step < 3; ++step) {
      const auto& move = row.forward.moves[step];
      EXPECT_EQ(move.to, (rank + 1) % 4);
      EXPECT_EQ(move.begin, row.forward.attention[step].begin);
      EXPECT_EQ(move.done, row.forward.attention[step].end);
    }
    // [2, rows, samples, heads * size] of 8 rows: three blocks each way, gradients likewise.
    EXPECT_EQ(sent(row.forward, "exchange", false), 3 * 2 * 8 * 2 * 64 * 4);
    EXPECT_EQ(sent(row.backward, "exchange", false), 3 * 2 * 8 * 2 * 64 * 4);
    EXPECT_EQ(sent(row.backward, "exchange", true), 3 * 2 * 8 * 2 * 64 * 4);
  }
}

TEST(ContextTimeline, AllKeysAtOnce) {
  const ContextTimeline gathered =
      context_timeline(planned_context("--context-parallel-size 4 --cp-comm-type all_gather"));
  const ContextTimeline by_heads =
      context_timeline(planned_context("--context-parallel-size 4 --cp-comm-type a2a"));
  for (int rank = 0; rank < 4; ++rank) {
    for (const ContextTimeline* timeline : {&gathered, &by_heads}) {
      const auto& row = timeline->rows[static_cast<std::size_t>(rank)];
      EXPECT_THAT(sources(row.forward), ElementsAre(-1));
      EXPECT_THAT(sources(row.backward), ElementsAre(-1));
    }
    const auto& row = gathered.rows[static_cast<std::size_t>(rank)];
    ASSERT_EQ(row.forward.moves.size(), 1U);
    EXPECT_EQ(row.forward.moves[0].op, "all_gather");
    EXPECT_EQ(row.forward.moves[0].done, 0.5);
    EXPECT_EQ(row.forward.attention[0].begin, 0.5);
    ASSERT_EQ(row.backward.moves.size(), 2U);
    EXPECT_EQ(row.backward.moves[1].op, "reduce_scatter");
    EXPECT_EQ(row.backward.moves[1].begin, row.backward.attention[0].end);
    const auto& heads = by_heads.rows[static_cast<std::size_t>(rank)];
    EXPECT_EQ(heads.forward.moves.size(), 2U);
    EXPECT_GT(sent(heads.forward, "all_to_all", false), 0);
    EXPECT_EQ(sent(heads.backward, "exchange", true), 0);
  }
}

// Rank a + 2 g of the context is rank a of the neighbours that exchange heads, and g of a ring.
TEST(ContextTimeline, ARingOfGroups) {
  const ContextTimeline timeline =
      context_timeline(planned_context("--context-parallel-size 4 --cp-comm-type a2a+p2p "
                                       "--hierarchical-context-parallel-sizes 2 2"));
  for (int rank = 0; rank < 4; ++rank) {
    const auto& row = timeline.rows[static_cast<std::size_t>(rank)];
    EXPECT_EQ(row.ring_rank, rank / 2);
    EXPECT_THAT(sources(row.forward), ElementsAre(rank / 2, 1 - rank / 2));
    EXPECT_THAT(sources(row.backward), ElementsAre(rank / 2, 1 - rank / 2));
  }
  EXPECT_THAT(to_svg(timeline, "of groups"), HasSubstr("keys of group 1"));
}

TEST(ContextTimeline, IsOfTheFirstGroupAndLayer) {
  const ContextTimeline timeline = context_timeline(
      planned_context("--context-parallel-size 2 --tensor-model-parallel-size 2 "
                      "--cp-comm-type all_gather p2p a2a p2p --recompute-granularity full "
                      "--recompute-method uniform --recompute-num-layers 1",
                      8));
  ASSERT_EQ(timeline.rows.size(), 2U);
  EXPECT_EQ(timeline.rows[1].rank, 1);
  EXPECT_EQ(timeline.rows[1].forward.moves.size(), 1U);
  EXPECT_THAT(to_svg(timeline, "of two"), HasSubstr("gather: "));
}

TEST(ContextTimeline, WhatCannotBeDrawnIsRefused) {
  const auto draw = [](const std::string& flags, std::int64_t world) {
    return [=] { context_timeline(planned_context(flags, world)); };
  };
  EXPECT_THAT(draw("", 4),
              testing::ThrowsMessage<ConfigError>(HasSubstr("give --context-parallel-size")));
  EXPECT_THAT(draw("--context-parallel-size 2 --pipeline-model-parallel-size 2", 4),
              testing::ThrowsMessage<ConfigError>(HasSubstr("--pipeline-model-parallel-size 2")));
}

}  // namespace
}  // namespace phalanx
