#include "phalanx/rendezvous/wait_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

namespace phalanx::rendezvous {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Kind = GraphRank::Kind;

GraphRank rank_that(Kind kind, int still_since_s = 0) {
  GraphRank rank;
  rank.kind = kind;
  rank.since = std::chrono::steady_clock::time_point(std::chrono::seconds(still_since_s));
  return rank;
}

GraphRank waiting(std::string group, std::int64_t number, std::vector<int> missing,
                  int still_since_s = 0) {
  GraphRank rank = rank_that(Kind::kWaiting, still_since_s);
  rank.group = std::move(group);
  rank.number = number;
  rank.missing = std::move(missing);
  return rank;
}

TEST(WaitGraph, NobodyIsStill) {
  EXPECT_THAT(find_culprits({rank_that(Kind::kMoving), rank_that(Kind::kMoving)}), IsEmpty());
}

TEST(WaitGraph, WhoDoesNotListAllIsExcusedByAnyoneWhoMoves) {
  std::vector<GraphRank> ranks = {waiting("tp", 4, {1}), waiting("tp", 4, {0}),
                                  rank_that(Kind::kMoving)};
  EXPECT_FALSE(find_culprits(ranks).empty());
  ranks[0].lists_all = false;
  EXPECT_THAT(find_culprits(ranks), IsEmpty());
  ranks[2].kind = Kind::kGone;
  EXPECT_FALSE(find_culprits(ranks).empty());
}

TEST(WaitGraph, WhoWaitsForNobody) {
  EXPECT_THAT(find_culprits({waiting("tp", 4, {1}), waiting("dp", 2, {2}), rank_that(Kind::kStill),
                             rank_that(Kind::kMoving)}),
              ElementsAre(2));
}

// Ranks that others wait for come first, then those without progress for longest.
TEST(WaitGraph, SeveralThatWaitForNobody) {
  EXPECT_THAT(find_culprits({rank_that(Kind::kStill, 1), rank_that(Kind::kStill, 3),
                             rank_that(Kind::kStill, 2), waiting("tp", 4, {1, 2})}),
              ElementsAre(2, 1, 0));
}

TEST(WaitGraph, WhoWaitsForOneThatMovesIsExcused) {
  EXPECT_THAT(
      find_culprits({waiting("tp", 4, {1}), waiting("dp", 2, {2}), rank_that(Kind::kMoving)}),
      IsEmpty());
  // The graph is followed through a rank whose wait has only begun.
  GraphRank young = waiting("tp", 4, {0});
  young.kind = Kind::kMoving;
  EXPECT_THAT(find_culprits({waiting("dp", 2, {1}), young}), IsEmpty());
}

TEST(WaitGraph, ACircleBesideRanksThatAreExcused) {
  EXPECT_THAT(
      find_culprits({waiting("tp", 4, {1}), rank_that(Kind::kMoving), waiting("dp", 9, {3}, 5),
                     waiting("", 1, {2}, 4), waiting("dp", 9, {2})}),
      ElementsAre(2));
}

TEST(WaitGraph, TheLowestCallOfTheGroup) {
  EXPECT_THAT(find_culprits({waiting("tp", 12, {1}), waiting("tp", 11, {0}), waiting("tp", 12, {1}),
                             waiting("tp", 11, {2})}),
              ElementsAre(1));
  EXPECT_THAT(find_culprits({waiting("tp", 12, {1, 3}), waiting("tp", 11, {0}),
                             waiting("tp", 12, {1}), waiting("tp", 11, {2, 0})}),
              ElementsAre(1, 3));
}

TEST(WaitGraph, WhomMostMissElseWhoIsStillForLongest) {
  EXPECT_THAT(
      find_culprits({waiting("tp", 7, {2}), waiting("tp", 7, {2}, 1), waiting("dp", 3, {0, 1}, 2)}),
      ElementsAre(2));
  EXPECT_THAT(find_culprits({waiting("tp", 7, {1}, 2), waiting("dp", 3, {0}, 1)}), ElementsAre(1));
}

// The graph ends at a rank that waits for one that has said goodbye, or whose missing ranks are not
// known.
TEST(WaitGraph, NobodyIsThereToWaitFor) {
  EXPECT_THAT(find_culprits({waiting("tp", 7, {1}), waiting("dp", 3, {2}), rank_that(Kind::kGone)}),
              ElementsAre(1));
  EXPECT_THAT(find_culprits({waiting("tp", 7, {1}), waiting("dp", 3, {})}), ElementsAre(1));
}

TEST(WaitGraph, RanksThatDoNotExist) {
  EXPECT_THAT(find_culprits({waiting("tp", 7, {-1, 99, 0}), waiting("tp", 7, {0})}),
              ElementsAre(0));
}

}  // namespace
}  // namespace phalanx::rendezvous
