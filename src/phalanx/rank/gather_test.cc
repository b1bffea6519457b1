#include "phalanx/rank/gather.h"

#include <gtest/gtest.h>

#include "phalanx/base/numeric.h"
#include "phalanx/comm/local/local_ranks.h"
#include "phalanx/ops/cpu/cpu_backend.h"

namespace phalanx {
namespace {

// Each rank's text is longer than a piece; all of it passes through the planned bytes.
TEST(Gather, EveryRankHasAllTextsAndNumbers) {
  constexpr int kRanks = 3;
  const auto text_of = [](int rank) {
    return std::string(static_cast<std::size_t>(150 * rank), static_cast<char>('a' + rank));
  };
  const auto numbers_of = [](int rank) {
    return std::vector<double>(static_cast<std::size_t>(20 + rank), 0.5 + rank);
  };
  run_local_ranks(kRanks, {}, [&](Communicator& world) {
    const auto backend = make_cpu_backend(1, cpu::ProductPrecision::kFp32);
    Arena workspace("workspace", round_up(gather_bytes(kRanks), kArenaAlignment));
    Context context{.backend = *backend, .workspace = workspace, .recorder = nullptr};
    const std::int64_t mine = 10 * world.rank();
    EXPECT_EQ(gather_numbers(world, context, mine), (std::vector<std::int64_t>{0, 10, 20}));
    const auto texts = gather_texts(world, context, text_of(world.rank()));
    const auto numbers = gather_numbers(world, context, numbers_of(world.rank()));
    for (int rank = 0; rank < kRanks; ++rank) {
      EXPECT_EQ(texts[static_cast<std::size_t>(rank)], text_of(rank));
      EXPECT_EQ(numbers[static_cast<std::size_t>(rank)], numbers_of(rank));
    }
    EXPECT_EQ(workspace.mark(), 0);
  });
}

TEST(Gather, OneRankNeedsNoMemory) {
  run_local_ranks(1, {}, [](Communicator& world) {
    const auto backend = make_cpu_backend(1, cpu::ProductPrecision::kFp32);
    Arena workspace("workspace", 0);
    Context context{.backend = *backend, .workspace = workspace, .recorder = nullptr};
    EXPECT_EQ(gather_texts(world, context, "alone"), std::vector<std::string>{"alone"});
    EXPECT_EQ(gather_numbers(world, context, 7), std::vector<std::int64_t>{7});
    EXPECT_EQ(gather_bytes(1), 0);
  });
}

}  // namespace
}  // namespace phalanx
