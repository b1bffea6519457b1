#include "phalanx/tokenizer/bpe_merges.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

namespace phalanx {
namespace {

using Ids = std::vector<std::int32_t>;
using Order = BpeMerges::Order;

Ids applied(const BpeMerges& merges, Ids ids) {
  BpeMerges::Workspace workspace;
  ids.resize(merges.apply(ids, workspace));
  return ids;
}

// The plain algorithm: find the best pair, merge its first occurrence or all of them, repeat.
Ids applied_plainly(const std::vector<BpeMerge>& merges, Order order, Ids ids) {
  while (true) {
    const auto occurs = [&ids](const BpeMerge& merge) {
      for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
        if (ids[i] == merge.left && ids[i + 1] == merge.right) return true;
      }
      return false;
    };
    const auto best = std::find_if(merges.begin(), merges.end(), occurs);
    if (best == merges.end()) return ids;
    Ids merged;
    bool done = false;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const bool here =
          !done && i + 1 < ids.size() && ids[i] == best->left && ids[i + 1] == best->right;
      merged.push_back(here ? best->result : ids[i]);
      i += here ? 1 : 0;
      done = done || (here && order == Order::kAtOnce);
    }
    ids = std::move(merged);
  }
}

// Merges of three letters in any order: a part may rank after its use.
std::vector<BpeMerge> random_merges(std::mt19937& random) {
  std::vector<BpeMerge> merges;
  std::int32_t next = 3;
  while (merges.size() < 10) {
    const auto left = static_cast<std::int32_t>(random() % static_cast<unsigned>(next));
    const auto right = static_cast<std::int32_t>(random() % static_cast<unsigned>(next));
    const bool known = std::any_of(merges.begin(), merges.end(), [&](const BpeMerge& merge) {
      return merge.left == left && merge.right == right;
    });
    if (!known) merges.push_back({left, right, next++});
  }
  std::shuffle(merges.begin(), merges.end(), random);
  return merges;
}

TEST(BpeMerges, EqualThePlainAlgorithmInBothOrders) {
  std::mt19937 random(7);
  int different = 0;
  for (int round = 0; round < 150; ++round) {
    const auto list = random_merges(random);
    const BpeMerges by_rank(list, Order::kRankByRank);
    const BpeMerges at_once(list, Order::kAtOnce);
    for (int i = 0; i < 20; ++i) {
      Ids ids;
      for (std::size_t n = random() % 120; n > 0; --n) {
        ids.push_back(static_cast<std::int32_t>(random() % 3));
      }
      const Ids first = applied(by_rank, ids);
      const Ids second = applied(at_once, ids);
      ASSERT_EQ(first, applied_plainly(list, Order::kRankByRank, ids));
      ASSERT_EQ(second, applied_plainly(list, Order::kAtOnce, ids));
      different += first != second ? 1 : 0;
    }
  }
  EXPECT_GT(different, 10);
}

TEST(BpeMerges, PairsMayShareARank) {
  // As in tiktoken: 0 1 2 are bytes; 3 = 01, 4 = 12, 5 = 012, from 0 4 or 3 2.
  BpeMerges merges(Order::kAtOnce);
  merges.add({0, 1, 3}, 3);
  merges.add({1, 2, 4}, 4);
  merges.add({0, 4, 5}, 5);
  merges.add({3, 2, 5}, 5);
  EXPECT_EQ(applied(merges, {0, 1, 2}), (Ids{5}));
  EXPECT_EQ(applied(merges, {0, 4}), (Ids{5}));
  EXPECT_EQ(applied(merges, {2, 1, 2, 0}), (Ids{2, 4, 0}));
}

TEST(BpeMerges, ShortAndEmptyInputs) {
  const std::vector<BpeMerge> list = {{0, 0, 1}, {0, 0, 2}};  // the first one counts
  const BpeMerges merges(list, Order::kAtOnce);
  EXPECT_EQ(applied(merges, {}), Ids{});
  EXPECT_EQ(applied(merges, {0}), Ids{0});
  EXPECT_EQ(applied(merges, {0, 0}), Ids{1});
  EXPECT_EQ(applied(merges, {0, 0, 0}), (Ids{1, 0}));
  EXPECT_EQ(applied(BpeMerges(Order::kAtOnce), {3, 4}), (Ids{3, 4}));
}

}  // namespace
}  // namespace phalanx
