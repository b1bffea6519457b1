#include "phalanx/mesh/context_cut.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "phalanx/base/error.h"
#include "phalanx/base/test_support.h"

namespace phalanx {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Kind = ContextCut::Kind;

// The document column of documents of these lengths, each with its padding to a multiple; the rest
// up to `sequence` is padding.
std::vector<std::int32_t> column(const std::vector<std::int64_t>& lengths, std::int64_t multiple,
                                 std::int64_t sequence) {
  std::vector<std::int32_t> documents;
  for (std::size_t d = 0; d < lengths.size(); ++d) {
    documents.insert(documents.end(), static_cast<std::size_t>(lengths[d]),
                     static_cast<std::int32_t>(d));
    while (std::ssize(documents) % multiple != 0) documents.push_back(-1);
  }
  documents.resize(static_cast<std::size_t>(sequence), -1);
  return documents;
}

std::vector<std::int64_t> rows(const ContextCut& cut, std::int64_t sequence,
                               const std::vector<std::int32_t>& documents, int rank) {
  std::vector<std::int64_t> rows;
  for (const ContextCut::Range& range : cut.rows(sequence, documents, rank)) {
    for (std::int64_t i = 0; i < range.count; ++i) rows.push_back(range.first + i);
  }
  return rows;
}

// Every row is on one rank, ranks have equally many, and each has them in ascending order.
void expect_partition(const ContextCut& cut, std::int64_t sequence,
                      const std::vector<std::int32_t>& documents) {
  std::vector<std::int64_t> all;
  for (int rank = 0; rank < cut.ranks(); ++rank) {
    const auto own = rows(cut, sequence, documents, rank);
    EXPECT_EQ(std::ssize(own), sequence / cut.ranks());
    EXPECT_TRUE(std::ranges::is_sorted(own));
    all.insert(all.end(), own.begin(), own.end());
  }
  std::ranges::sort(all);
  std::vector<std::int64_t> expected(static_cast<std::size_t>(sequence));
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(all, expected);
}

TEST(ContextCut, OfTheSequence) {
  const ContextCut two(2, Kind::kSequence);
  EXPECT_THAT(rows(two, 8, {}, 0), ElementsAre(0, 1, 6, 7));
  EXPECT_THAT(rows(two, 8, {}, 1), ElementsAre(2, 3, 4, 5));
  const ContextCut four(4, Kind::kSequence);
  EXPECT_THAT(rows(four, 16, {}, 0), ElementsAre(0, 1, 14, 15));
  EXPECT_THAT(rows(four, 16, {}, 1), ElementsAre(2, 3, 12, 13));
  EXPECT_THAT(rows(four, 16, {}, 2), ElementsAre(4, 5, 10, 11));
  EXPECT_THAT(rows(four, 16, {}, 3), ElementsAre(6, 7, 8, 9));
  for (const int ranks : {1, 2, 3, 4, 8}) {
    expect_partition(ContextCut(ranks, Kind::kSequence), 48 * ranks, {});
  }
}

// The formula of local row j, and its inverse.
TEST(ContextCut, RowsByTheirFormula) {
  constexpr int kRanks = 3;
  constexpr std::int64_t kSequence = 30, kChunk = kSequence / (2 * kRanks);
  const ContextCut cut(kRanks, Kind::kSequence);
  for (int rank = 0; rank < kRanks; ++rank) {
    const auto own = rows(cut, kSequence, {}, rank);
    for (std::int64_t j = 0; j < std::ssize(own); ++j) {
      const std::int64_t row = own[static_cast<std::size_t>(j)];
      EXPECT_EQ(row,
                j < kChunk ? rank * kChunk + j : (2 * kRanks - 1 - rank) * kChunk + j - kChunk);
      const std::int64_t chunk = row / kChunk;
      EXPECT_EQ(chunk < kRanks ? chunk : 2 * kRanks - 1 - chunk, rank);
      EXPECT_EQ(row % kChunk + (chunk >= kRanks ? kChunk : 0), j);
    }
  }
}

TEST(ContextCut, OneRankHasEverything) {
  const ContextCut one;
  EXPECT_EQ(one, ContextCut(1, Kind::kSequence));
  EXPECT_THAT(one.rows(7, {}, 0), ElementsAre(ContextCut::Range{.first = 0, .count = 7}));
  EXPECT_THAT(ContextCut(1, Kind::kDocuments).rows(7, {}, 0),
              ElementsAre(ContextCut::Range{.first = 0, .count = 7}));
}

TEST(ContextCut, OfDocuments) {
  const ContextCut cut(2, Kind::kDocuments);
  const auto documents = column({8, 4}, 4, 12);
  EXPECT_THAT(rows(cut, 12, documents, 0), ElementsAre(0, 1, 6, 7, 8, 11));
  EXPECT_THAT(rows(cut, 12, documents, 1), ElementsAre(2, 3, 4, 5, 9, 10));
  EXPECT_THAT(cut.rows(12, documents, 1), ElementsAre(ContextCut::Range{.first = 2, .count = 2},
                                                      ContextCut::Range{.first = 4, .count = 2},
                                                      ContextCut::Range{.first = 9, .count = 1},
                                                      ContextCut::Range{.first = 10, .count = 1}));
}

// Documents of 5 and 3 rows are padded to 8 and 4 rows. Behind them are 8 rows of padding, which
// are a region that is cut for itself, and no part of the second document.
TEST(ContextCut, PaddingBelongsToTheDocumentBeforeItOrToNone) {
  const ContextCut cut(2, Kind::kDocuments);
  const auto documents = column({5, 3}, 4, 20);
  EXPECT_THAT(rows(cut, 20, documents, 0), ElementsAre(0, 1, 6, 7, 8, 11, 12, 13, 18, 19));
  EXPECT_THAT(rows(cut, 20, documents, 1), ElementsAre(2, 3, 4, 5, 9, 10, 14, 15, 16, 17));
  for (const int ranks : {2, 3, 4}) {
    expect_partition(ContextCut(ranks, Kind::kDocuments), 96,
                     column({1, 7, 8, 9, 20}, std::int64_t{2} * ranks, 96));
  }
  // Padding may stand before a document, too, and a whole sample may be padding.
  expect_partition(cut, 8, {-1, -1, -1, -1, 3, 3, -1, -1});
  expect_partition(cut, 8, std::vector<std::int32_t>(8, -1));
}

TEST(ContextCut, RefusesWhatCannotBeCut) {
  const ContextCut sequence(2, Kind::kSequence);
  EXPECT_THAT(error_of(ErrorCode::kConfiguration, [&] { sequence.rows(10, {}, 0); }),
              HasSubstr("10 rows cannot be cut into 4 chunks for 2 ranks"));
  const ContextCut cut(2, Kind::kDocuments);
  const auto refusal = [&](const std::vector<std::int32_t>& documents) {
    return error_of(ErrorCode::kBadData, [&] { cut.rows(8, documents, 0); });
  };
  EXPECT_THAT(refusal({0, 0, 0, 1, 1, 1, 1, 1}),
              HasSubstr("rows 0 to 2 of a sample, of document 0 with its padding, are 3"));
  EXPECT_THAT(refusal({0, 0, 0, 0, 1, 1, -1, 2}), HasSubstr("rows 4 to 6"));
  EXPECT_THAT(refusal({-1, 0, 0, 0, 0, -1, -1, -1}), HasSubstr("rows 0 to 0"));
  EXPECT_THROW(cut.rows(8, column({4}, 4, 4), 0), InternalError);
  EXPECT_THROW(cut.rows(8, column({4}, 4, 8), 2), InternalError);
}

// The pairs of rows of the same document that a causal mask shows, by the rank that has the query.
std::vector<double> pairs(const ContextCut& cut, std::int64_t sequence,
                          const std::vector<std::int32_t>& documents, std::int64_t window) {
  std::vector<std::int64_t> begins(static_cast<std::size_t>(sequence));  // of each row's document
  for (std::size_t row = 1; row < begins.size(); ++row) {
    begins[row] =
        documents[row] == documents[row - 1] ? begins[row - 1] : static_cast<std::int64_t>(row);
  }
  std::vector<double> sums;
  for (int rank = 0; rank < cut.ranks(); ++rank) {
    std::int64_t sum = 0;
    for (const std::int64_t row : rows(cut, sequence, documents, rank)) {
      if (documents[static_cast<std::size_t>(row)] < 0) continue;
      sum += std::min(row - begins[static_cast<std::size_t>(row)] + 1, window);
    }
    sums.push_back(static_cast<double>(sum));
  }
  return sums;
}

double total(const std::vector<double>& of_ranks) {
  return std::accumulate(of_ranks.begin(), of_ranks.end(), 0.0);
}

double busiest_by_mean(const std::vector<double>& of_ranks) {
  return *std::ranges::max_element(of_ranks) * static_cast<double>(of_ranks.size()) /
         total(of_ranks);
}

constexpr std::int64_t kRows = 1024;
const std::vector<std::int32_t> kOneDocument(kRows, 0);

TEST(ContextCut, RanksOfACausalSampleHaveEqualWork) {
  for (const int ranks : {2, 4, 8}) {
    const std::int64_t chunk = kRows / (2 * ranks);
    const auto expected =
        static_cast<double>(chunk * chunk * (2 * ranks - 1) + chunk * (chunk + 1));
    for (const double own : pairs(ContextCut(ranks, Kind::kSequence), kRows, kOneDocument, kRows)) {
      EXPECT_EQ(own, expected);
    }
    EXPECT_EQ(2.0 * expected * ranks, static_cast<double>(kRows * (kRows + 1)));
  }
}

// With a window the first rows have fewer keys, which no cut into 2 P chunks mends.
TEST(ContextCut, WorkOfAWindow) {
  const ContextCut cut(2, Kind::kSequence);
  EXPECT_NEAR(busiest_by_mean(pairs(cut, kRows, kOneDocument, 64)), 1.0317, 5e-5);
  EXPECT_NEAR(busiest_by_mean(pairs(cut, kRows, kOneDocument, 256)), 1.1422, 5e-5);
}

TEST(ContextCut, WorkOfDocuments) {
  struct Row {
    std::vector<std::int64_t> lengths;
    double share;                 // of the pairs of a causal sample
    std::vector<double> busiest;  // / mean, at 2, 4 and 8 ranks
  };
  std::vector<std::int64_t> half(8, 64), turned(8, 64), many(32, 16);
  half.insert(half.begin(), 512);
  turned.push_back(512);
  many.push_back(512);
  const std::vector<Row> table = {{std::vector<std::int64_t>(8, 128), .126, {1.0, 1.0, 1.0}},
                                  {half, .282, {1.443, 1.664, 1.775}},
                                  {turned, .282, {1.443, 1.664, 1.775}},
                                  {{768, 256}, .625, {1.599, 1.599, 1.599}},
                                  {many, .259, {1.483, 1.725, 1.845}}};
  for (const Row& row : table) {
    const auto documents = column(row.lengths, 1, kRows);
    for (std::size_t i = 0; i < 3; ++i) {
      const int ranks = 2 << i;
      const auto zig_zag = pairs(ContextCut(ranks, Kind::kSequence), kRows, documents, kRows);
      EXPECT_NEAR(2.0 * total(zig_zag) / static_cast<double>(kRows * (kRows + 1)), row.share, 5e-4);
      EXPECT_NEAR(busiest_by_mean(zig_zag), row.busiest[i], 5e-4);
      const auto own = pairs(ContextCut(ranks, Kind::kDocuments), kRows, documents, kRows);
      EXPECT_EQ(total(own), total(zig_zag));
      EXPECT_EQ(busiest_by_mean(own), 1.0);
    }
  }
}

}  // namespace
}  // namespace phalanx
