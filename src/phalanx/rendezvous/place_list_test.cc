#include "phalanx/rendezvous/place_list.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "phalanx/base/error.h"
#include "phalanx/rendezvous/roster.h"

namespace phalanx::rendezvous {
namespace {

bool is_same(const RankPlace& left, const RankPlace& right) {
  return left.rank == right.rank && left.world_size == right.world_size &&
         left.host == right.host && left.local_rank == right.local_rank &&
         left.local_size == right.local_size && left.host_name == right.host_name;
}

// The places of ranks that join from these hosts, in their order; `ranks_of_node`: on nodes of so
// many ranks, whatever their names.
std::vector<RankPlace> places_of(const std::vector<std::string>& hosts, int ranks_of_node = 0) {
  const int size = static_cast<int>(hosts.size());
  Roster roster("rank", size);
  for (int rank = 0; rank < size; ++rank) {
    const std::string& host = hosts[static_cast<std::size_t>(rank)];
    const int node = ranks_of_node > 0 ? rank / ranks_of_node : 0;
    roster.admit(rank, {size, node, 0, 1, 1, host, host});
  }
  return roster.places();
}

void expect_through(const std::vector<std::string>& hosts, int ranks_of_node = 0) {
  const std::vector<RankPlace> places = places_of(hosts, ranks_of_node);
  const std::string text = PlaceList(places).text();
  const PlaceList list = PlaceList::read(text);
  EXPECT_EQ(list.ranks(), std::ssize(places));
  EXPECT_EQ(list.hosts(), 1 + std::max_element(places.begin(), places.end(), [](auto& a, auto& b) {
                                return a.host < b.host;
                              })->host);
  const std::vector<RankPlace> read = list.places();
  ASSERT_EQ(read.size(), places.size());
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    EXPECT_TRUE(is_same(read[rank], places[rank])) << rank << " of " << text;
    EXPECT_EQ(list.host_of(static_cast<int>(rank)), places[rank].host);
  }
}

TEST(PlaceList, ComesBackAsItWas) {
  expect_through({"n"});
  expect_through({"n1", "n1", "n2", "n2", "n3"});
  expect_through({"n09", "n10", "n11", "n011"});
  expect_through({"a", "b", "a", "b", "a", "c"});
  expect_through({"vm", "vm", "vm", "vm", "a", "b1", "b1", "b1", "b2", "b2", "b3", "c"}, 1);
  expect_through({"b1", "b2", "b2", "b3", "7", "7"}, 1);
  expect_through({"gpu007", "gpu007", "gpu008", "login", "gpu009", "gpu009"});
  expect_through({"9", "10", "1234567890123", "1234567890124", "", "x0", "x1"});
}

TEST(PlaceList, OfARegularClusterIsALine) {
  std::vector<std::string> blocks;
  std::vector<std::string> turns;
  for (int rank = 0; rank < 10000; ++rank) {
    blocks.push_back(fmt::format("gpu{:04}", rank / 8));
    turns.push_back(fmt::format("gpu{}", rank % 1250));
  }
  expect_through(blocks);
  expect_through(turns);
  EXPECT_EQ(PlaceList(places_of(blocks)).text(),
            R"({"names":[["gpu",4,0,1250]],"runs":[[0,1250,8]]})");
  EXPECT_LT(PlaceList(places_of(turns)).text().size(), 300U);
}

TEST(PlaceList, ThatIsNoneIsRefused) {
  for (const char* text :
       {"", "[]", "{}", R"({"names":[["a",0,0,1]],"runs":[]})", R"({"names":[],"runs":[[0,1,1]]})",
        R"({"names":[["a",0,0,1]],"runs":[[0,2,1]]})",
        R"({"names":[["a",0,0,1]],"runs":[[1,1,1]]})",
        R"({"names":[["a",0,0,1]],"runs":[[0,1,0]]})",
        R"({"names":[["a",0,0,1]],"runs":[[0,1,99999999]]})",
        R"({"names":[["a",0,0,2]],"runs":[[0,3,1]]})",
        R"({"names":[["a",1,0,99999999]],"runs":[[0,1,1]]})",
        R"({"names":[["a",10,0,1]],"runs":[[0,1,1]]})",
        R"({"names":[["a",1,-1,1]],"runs":[[0,1,1]]})", R"({"names":[3],"runs":[[0,1,1]]})"}) {
    EXPECT_THROW(PlaceList::read(text), UnavailableError) << text;
  }
}

}  // namespace
}  // namespace phalanx::rendezvous
