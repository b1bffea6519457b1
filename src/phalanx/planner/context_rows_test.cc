#include "phalanx/planner/context_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "phalanx/base/error.h"

namespace phalanx {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Kind = ContextCut::Kind;

ContextSample sample(int ranks, Kind kind, std::int64_t sequence,
                     std::vector<std::int64_t> documents = {}) {
  return {.cut = {ranks, kind}, .sequence = sequence, .documents = std::move(documents)};
}

std::int64_t pairs(const ContextRows& rows, int rank) {
  const auto& of_rank = rows.pairs[static_cast<std::size_t>(rank)];
  return std::accumulate(of_rank.begin(), of_rank.end(), std::int64_t{0});
}

// Chunks of C rows: C^2 (2 P - 1) + C (C + 1) pairs of every rank, 2 C^2 in every step but the
// first.
TEST(ContextRows, ACausalSampleIsBalanced) {
  const ContextRows rows = context_rows(sample(4, Kind::kSequence, 64));
  std::vector<int> ranks;
  for (const auto& chunk : rows.chunks) ranks.push_back(chunk.rank);
  EXPECT_THAT(ranks, ElementsAre(0, 1, 2, 3, 3, 2, 1, 0));
  EXPECT_EQ(rows.blocks.size(), 8U * 9U / 2U);
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(pairs(rows, rank), 8 * 8 * 7 + 8 * 9);
    for (std::size_t step = 1; step < 4; ++step) {
      EXPECT_EQ(rows.pairs[static_cast<std::size_t>(rank)][step], 2 * 8 * 8);
    }
  }
}

TEST(ContextRows, DocumentsDoNotSeeEachOther) {
  const std::int64_t all = 24 * 25 / 2 + 16 * 17 / 2 + 24 * 25 / 2;
  for (const Kind kind : {Kind::kSequence, Kind::kDocuments}) {
    const ContextRows rows = context_rows(sample(2, kind, 64, {24, 16, 24}));
    EXPECT_EQ(pairs(rows, 0) + pairs(rows, 1), all);
  }
  // One long document: its half of the sample is not shared out evenly by the sequence.
  const ContextRows uneven = context_rows(sample(4, Kind::kSequence, 64, {32, 16, 16}));
  EXPECT_NE(pairs(uneven, 0), pairs(uneven, 3));
  const ContextRows even = context_rows(sample(4, Kind::kDocuments, 64, {32, 16, 16}));
  EXPECT_EQ(pairs(even, 0), pairs(even, 3));
}

// Padding is on ranks, too, and sees nothing.
TEST(ContextRows, DocumentsArePadded) {
  const ContextRows rows = context_rows(sample(2, Kind::kDocuments, 16, {6, 3}));
  EXPECT_EQ(pairs(rows, 0) + pairs(rows, 1), 6 * 7 / 2 + 3 * 4 / 2);
  EXPECT_EQ(rows.chunks.back().document, -1);
  EXPECT_EQ(rows.chunks[4].first, 8);
  EXPECT_EQ(rows.chunks[4].document, 1);
}

TEST(ContextRows, WhatCannotBeDrawnIsRefused) {
  const auto draw = [](const ContextSample& of) { return [=] { context_rows(of); }; };
  EXPECT_THAT(draw(sample(4, Kind::kSequence, 60)),
              testing::ThrowsMessage<ConfigError>(HasSubstr("cannot be cut into 8 chunks")));
  EXPECT_THAT(draw(sample(2, Kind::kSequence, 16, {10, 8})),
              testing::ThrowsMessage<ConfigError>(HasSubstr("18 rows")));
  EXPECT_THAT(draw(sample(2, Kind::kSequence, 1 << 20)),
              testing::ThrowsMessage<ConfigError>(HasSubstr("4096 rows")));
  EXPECT_THAT(draw(sample(2, Kind::kSequence, 16, {0})),
              testing::ThrowsMessage<ConfigError>(HasSubstr("a document of 0 rows")));
}

TEST(ContextRows, IsDrawn) {
  const ContextSample of = sample(4, Kind::kDocuments, 64, {24, 16, 24});
  const std::string svg = to_svg(context_rows(of), of);
  EXPECT_THAT(svg, HasSubstr("A sample of 64 rows on 4 ranks, cut by documents"));
  EXPECT_THAT(svg, HasSubstr("rank 3: rows 9 to 11"));
  EXPECT_THAT(svg, HasSubstr("The busiest rank has 1.000 times the mean"));
}

}  // namespace
}  // namespace phalanx
