#include "phalanx/rendezvous/roster.h"

#include <gtest/gtest.h>

namespace phalanx::rendezvous {
namespace {

// Rank `number` of 8 on nodes of 4.
JoinRequest on_node(int number, const std::string& machine = "") {
  const int node = number / 4;
  const std::string host = node == 0 ? "n01" : "n02";
  return {8, node, number % 4, 4, 100 + number, host, machine.empty() ? host : machine};
}

Roster all_but(const std::vector<int>& missing) {
  Roster roster("rank", 8);
  for (int number = 0; number < 8; ++number) {
    if (std::find(missing.begin(), missing.end(), number) == missing.end()) {
      EXPECT_FALSE(roster.admit(number, on_node(number)));
    }
  }
  return roster;
}

TEST(Roster, NamesWhoIsMissing) {
  EXPECT_EQ(all_but({5}).roll_call(), "7/8 joined, missing rank 5 (host n02)");
  EXPECT_EQ(all_but({2, 5, 6}).roll_call(),
            "5/8 joined, missing ranks 2 (host n01), 5-6 (host n02)");
  EXPECT_EQ(all_but({4, 5, 6, 7}).roll_call(), "4/8 joined, missing ranks 4-7");
  EXPECT_EQ(Roster("launcher", 2).roll_call(), "0/2 joined, missing launchers 0-1");
  EXPECT_EQ(all_but({}).roll_call(), "8/8 joined");
  Roster large("rank", 100);
  for (int number = 0; number < 100; number += 2) {
    large.admit(number, {100, number, 0, 1, 1, "n", "m"});
  }
  EXPECT_EQ(large.roll_call(), "50/100 joined, missing ranks 1, 3, 5, 7, 9, 11, 13, 15, ...");
}

TEST(Roster, RefusesWhoContradictsTheOthers) {
  Roster roster = all_but({7});
  const auto twice = roster.admit(3, {8, 1, 3, 4, 9, "n09", "n09"});
  ASSERT_TRUE(twice);
  EXPECT_EQ(twice->code, ErrorCode::kConfiguration);
  EXPECT_EQ(twice->text,
            "rank 3 joins twice: from host n01 (pid 103) and from host n09 (pid 9): each needs a "
            "number of its own (RANK, --node-rank)");
  JoinRequest other = on_node(7);
  other.world_size = 16;
  const auto size = roster.admit(7, other);
  ASSERT_TRUE(size);
  EXPECT_EQ(size->text,
            "rank 7 (host n02) counts 16 ranks, the coordinator 8: the same number on all hosts "
            "(WORLD_SIZE, --nnodes, --nproc-per-node)");
  const auto beyond = roster.admit(8, on_node(7));
  ASSERT_TRUE(beyond);
  EXPECT_EQ(beyond->text, "rank 8 (host n02) of 8: they are numbered from 0 to 7");
  EXPECT_EQ(roster.joined(), 7);
}

TEST(Roster, AHostIsANodeAndAMachine) {
  const std::vector<RankPlace> places = all_but({}).places();
  for (int number = 0; number < 8; ++number) {
    const RankPlace& place = places[static_cast<std::size_t>(number)];
    EXPECT_EQ(place.rank, number);
    EXPECT_EQ(place.world_size, 8);
    EXPECT_EQ(place.host, number / 4);
    EXPECT_EQ(place.local_rank, number % 4);
    EXPECT_EQ(place.local_size, 4);
  }
}

// Two network namespaces, or machines, under one node number: ranks count anew in each.
TEST(Roster, ANodeOfTwoMachinesIsTwoHosts) {
  Roster roster("rank", 8);
  for (int number = 0; number < 8; ++number) {
    roster.admit(number, on_node(number, number % 2 == 0 ? "even" : "odd"));
  }
  const std::vector<RankPlace> places = roster.places();
  const std::vector<int> hosts = {0, 1, 0, 1, 2, 3, 2, 3};
  for (std::size_t number = 0; number < 8; ++number) {
    EXPECT_EQ(places[number].host, hosts[number]) << number;
    EXPECT_EQ(places[number].local_rank, static_cast<int>(number % 4) / 2) << number;
    EXPECT_EQ(places[number].local_size, 2) << number;
  }
}

}  // namespace
}  // namespace phalanx::rendezvous
