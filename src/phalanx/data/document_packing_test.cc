#include "phalanx/data/document_packing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>

#include "phalanx/base/error.h"

namespace phalanx {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Lists = std::vector<std::vector<std::uint32_t>>;

Lists lists_of(const DocumentPacks& packs) {
  Lists lists;
  for (std::size_t pack = 0; pack + 1 < packs.begins.size(); ++pack) {
    lists.emplace_back(packs.documents.begin() + packs.begins[pack],
                       packs.documents.begin() + packs.begins[pack + 1]);
  }
  return lists;
}

DocumentPacks pack(const std::vector<std::int32_t>& lengths, std::int64_t capacity,
                   DocumentPacking packing, std::int64_t multiple = 1) {
  return pack_documents(SequenceLengths(lengths), capacity, packing, nullptr, multiple);
}

TEST(DocumentPackingTest, BestFitPutsTheLongestFirst) {
  const auto packs = pack({5, 3, 9, 2, 7, 4, 12, 1}, 10, DocumentPacking::kBestFit);
  EXPECT_EQ(lists_of(packs), (Lists{{6}, {2, 7}, {4, 1}, {0, 5}, {3}}));
  EXPECT_EQ(packs.counts,
            (PackingCounts{
                .packs = 5, .documents = 8, .tokens = 41, .cut_documents = 1, .cut_tokens = 2}));
}

TEST(DocumentPackingTest, SingleDocumentsKeepTheOrderOfTheFile) {
  const auto packs = pack({5, 3, 0, 12, 1, 2}, 10, DocumentPacking::kSingle);
  EXPECT_EQ(lists_of(packs), (Lists{{0}, {1}, {3}, {5}}));
  EXPECT_EQ(packs.counts.dropped_packs, 1);
}

TEST(DocumentPackingTest, GreedyKeepsTheOrderOfTheFile) {
  EXPECT_EQ(lists_of(pack({5, 3, 9, 2, 7, 4, 12, 1}, 10, DocumentPacking::kGreedy)),
            (Lists{{0, 1}, {2}, {3, 4}, {5}, {6}}));
}

// Both packs have a space of 4 in the end, and the second one has it first.
TEST(DocumentPackingTest, OfEqualSpacesTheOldestIsTaken) {
  EXPECT_EQ(lists_of(pack({60, 51, 45, 36, 4}, 100, DocumentPacking::kBestFit)),
            (Lists{{0, 3}, {1, 2, 4}}));
}

TEST(DocumentPackingTest, WhatTrainsNothingIsLeftOut) {
  const auto greedy = pack({0, 1, 1, 2, 0, 3}, 2, DocumentPacking::kGreedy);
  EXPECT_EQ(lists_of(greedy), (Lists{{3}, {5}}));
  EXPECT_EQ(greedy.counts, (PackingCounts{.packs = 2,
                                          .documents = 2,
                                          .tokens = 4,
                                          .cut_documents = 1,
                                          .cut_tokens = 1,
                                          .empty_documents = 2,
                                          .dropped_packs = 1}));
  for (const auto packing : {DocumentPacking::kGreedy, DocumentPacking::kBestFit}) {
    EXPECT_THAT(pack({}, 4, packing).documents, IsEmpty());
    EXPECT_THAT(pack({1, 1, 0}, 4, packing).begins, ElementsAre(0));
  }
}

// Documents take 8, 4, 12, 4, 8, 4, 12 and 4 of a pack; only those of the same room stay in order.
TEST(DocumentPackingTest, LengthsAreRoundedUpBeforePacking) {
  const std::vector<std::int32_t> lengths = {5, 3, 9, 2, 7, 4, 14, 1};
  const auto packs = pack(lengths, 12, DocumentPacking::kBestFit, 4);
  EXPECT_EQ(lists_of(packs), (Lists{{2}, {6}, {0, 1}, {4, 3}, {5, 7}}));
  EXPECT_EQ(packs.counts,
            (PackingCounts{
                .packs = 5, .documents = 8, .tokens = 43, .cut_documents = 1, .cut_tokens = 2}));
  EXPECT_EQ(lists_of(pack(lengths, 12, DocumentPacking::kGreedy, 4)),
            (Lists{{0, 1}, {2}, {3, 4}, {5}, {6}}));
  EXPECT_THROW(pack(lengths, 10, DocumentPacking::kGreedy, 4), InternalError);
}

// What the method says, without its queues.
Lists plain_best_fit(const std::vector<std::int32_t>& lengths, std::int64_t capacity) {
  std::vector<std::uint32_t> order(lengths.size());
  std::iota(order.begin(), order.end(), 0U);
  const auto clipped = [&](std::uint32_t i) {
    return std::min<std::int64_t>(lengths[i], capacity);
  };
  std::ranges::stable_sort(order, [&](auto a, auto b) { return clipped(a) > clipped(b); });
  Lists packs;
  std::map<std::int64_t, std::vector<std::size_t>> open;
  for (const std::uint32_t document : order) {
    if (lengths[document] == 0) continue;
    const auto found = std::ranges::find_if(open, [&](const auto& queue) {
      return queue.first >= clipped(document) && !queue.second.empty();
    });
    std::size_t pack = packs.size();
    std::int64_t space = capacity;
    if (found == open.end()) {
      packs.emplace_back();
    } else {
      space = found->first;
      pack = found->second.front();
      found->second.erase(found->second.begin());
    }
    packs[pack].push_back(document);
    open[space - clipped(document)].push_back(pack);
  }
  std::erase_if(packs, [&](const auto& list) {
    return std::ranges::all_of(list, [&](std::uint32_t i) { return lengths[i] == 1; });
  });
  return packs;
}

TEST(DocumentPackingTest, BestFitIsThePlainMethod) {
  std::mt19937 random(1);  // NOLINT(cert-msc32-c,cert-msc51-cpp): the same cases every time
  for (int i = 0; i < 60; ++i) {
    const auto capacity = static_cast<std::int64_t>(1 + random() % (i < 40 ? 20 : 10000));
    std::vector<std::int32_t> lengths(random() % 200);
    for (auto& length : lengths) {
      length = static_cast<std::int32_t>(random() % static_cast<std::uint32_t>(capacity + 3));
    }
    EXPECT_EQ(lists_of(pack(lengths, capacity, DocumentPacking::kBestFit)),
              plain_best_fit(lengths, capacity))
        << "case " << i << ", capacity " << capacity;
  }
}

TEST(DocumentPackingTest, PollEndsIt) {
  const std::vector<std::int32_t> lengths = {1, 2, 3};
  EXPECT_THROW(pack_documents(SequenceLengths(lengths), 4, DocumentPacking::kBestFit,
                              [] { throw ConfigError("enough"); }),
               ConfigError);
  EXPECT_THROW(pack_documents(SequenceLengths(lengths), 0, DocumentPacking::kBestFit), ConfigError);
}

}  // namespace
}  // namespace phalanx
