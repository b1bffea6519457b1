#include "phalanx/start/populate_arenas.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/comm/local/local_ranks.h"
#include "phalanx/ops/cpu/cpu_backend.h"

namespace phalanx {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr std::int64_t kMiB = 1 << 20;

// Without huge pages, so that no more memory is resident than was taken.
Arena arena_of(std::int64_t bytes) {
  Arena arena("arena", bytes);
  if (bytes > 0) ::madvise(arena.base(), static_cast<std::size_t>(bytes), MADV_NOHUGEPAGE);
  return arena;
}

std::int64_t resident(const Arena& arena) {
  if (arena.capacity() == 0) return 0;
  const std::int64_t page = ::sysconf(_SC_PAGESIZE);
  std::vector<unsigned char> pages(static_cast<std::size_t>((arena.capacity() + page - 1) / page));
  EXPECT_EQ(::mincore(arena.base(), static_cast<std::size_t>(arena.capacity()), pages.data()), 0);
  return page * std::ranges::count_if(pages, [](unsigned char bits) { return (bits & 1) != 0; });
}

// Ranks that are threads, each with a large arena and small ones, on `hosts` machines.
class PopulateArenasTest : public testing::Test {
 protected:
  static constexpr int kRanks = 4;
  static constexpr std::int64_t kLarge = 24 * kMiB;

  void populate(int hosts, const std::function<AvailableMemory(int host)>& available) {
    std::vector<RankPlace> places;
    for (int rank = 0; rank < kRanks; ++rank) {
      const int local_size = kRanks / hosts;
      places.push_back({.rank = rank,
                        .world_size = kRanks,
                        .host = rank / local_size,
                        .local_rank = rank % local_size,
                        .local_size = local_size,
                        .host_name = {}});
    }
    run_local_ranks(kRanks, {}, [&](Communicator& world) {
      const auto backend = make_cpu_backend(2, cpu::ProductPrecision::kFp32);
      const auto mine = static_cast<std::size_t>(world.rank());
      const int host = places[mine].host;
      Arena workspace("workspace", 1 << 12);
      Context context{.backend = *backend, .workspace = workspace, .recorder = nullptr};
      populate_arenas(world, context, places, arenas_[mine],
                      {.threads = 2, .block_bytes = 4 * kMiB, .available = [&, host] {
                         ++asked_;
                         return available(host);
                       }});
    });
  }
  std::int64_t taken() const {
    std::int64_t bytes = 0;
    for (const auto& arenas : arenas_) {
      for (const Arena& arena : arenas) bytes += resident(arena);
    }
    return bytes;
  }
  static std::vector<std::vector<Arena>> arenas_of_ranks() {
    std::vector<std::vector<Arena>> arenas(kRanks);
    for (std::vector<Arena>& own : arenas) {
      for (const std::int64_t bytes : {kLarge, std::int64_t{0}, kMiB})
        own.push_back(arena_of(bytes));
    }
    return arenas;
  }

  std::vector<std::vector<Arena>> arenas_ = arenas_of_ranks();
  const std::int64_t all_ = kRanks * (kLarge + kMiB);
  std::atomic<int> asked_ = 0;
};

// Memory that is taken is no longer available and is not counted twice: exactly enough is enough.
TEST_F(PopulateArenasTest, TakesWhatIsThereToTheLastByte) {
  populate(1, [&](int) { return AvailableMemory{all_ - taken(), "a limit"}; });
  EXPECT_EQ(taken(), all_);
  EXPECT_GE(asked_, 6);  // before every block
}

// Each rank's arenas alone would fit.
TEST_F(PopulateArenasTest, RanksOfAHostShareItsMemory) {
  try {
    populate(1, [&](int) { return AvailableMemory{all_ - kMiB, "memory.max of cgroup /job"}; });
    ADD_FAILURE() << "no error";
  } catch (const SystemError& error) {
    EXPECT_EQ(error.exit_status(), 71);
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("4 ranks"), HasSubstr("100 MiB of 100 MiB are still to be taken"),
                      HasSubstr("99.0 MiB are available (memory.max of cgroup /job)"),
                      HasSubstr("--allow-overcommit")));
  }
  EXPECT_EQ(taken(), 0);
}

TEST_F(PopulateArenasTest, HostsHaveMemoriesOfTheirOwn) {
  populate(2, [&](int) { return AvailableMemory{all_ / 2, "a limit"}; });
  EXPECT_EQ(taken(), all_);
}

// Others take memory meanwhile: the ranks end before it is used up.
TEST_F(PopulateArenasTest, EndsWhereOthersTakeWhatIsLeft) {
  EXPECT_THROW(populate(2,
                        [&](int host) {
                          const std::int64_t others = host == 1 && asked_ > 4 ? all_ / 2 : 0;
                          return AvailableMemory{all_ - taken() - others, "a limit"};
                        }),
               SystemError);
  EXPECT_GT(taken(), 0);
  EXPECT_LT(taken(), all_);
}

}  // namespace
}  // namespace phalanx
