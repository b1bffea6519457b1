#include "phalanx/comm/local/local_team.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>

#include "phalanx/base/error.h"
#include "phalanx/base/test_support.h"

namespace phalanx {
namespace {

TEST(LocalTeam, RunsEveryRankOnTheSameThreadEachTime) {
  for (const int size : {1, 3}) {
    LocalTeam team(size);
    std::array<std::thread::id, 3> first, again;
    for (auto* threads : {&first, &again}) {
      team.run([&](Communicator& world) {
        (*threads)[static_cast<std::size_t>(world.rank())] = std::this_thread::get_id();
      });
    }
    EXPECT_EQ(first, again);
    EXPECT_EQ(first[0], std::this_thread::get_id());
  }
}

TEST(LocalTeam, TheFirstFailureComesOut) {
  LocalTeam team(3);
  std::atomic<int> ran = 0;
  EXPECT_EQ(error_of<ConfigError>([&] {
              team.run([&](Communicator& world) {
                ++ran;
                if (world.rank() == 1) throw ConfigError("of rank 1");
              });
            }),
            "of rank 1");
  EXPECT_EQ(ran, 3);
}

}  // namespace
}  // namespace phalanx
