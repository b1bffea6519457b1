#include "phalanx/rank/communicators.h"

#include <gtest/gtest.h>

#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/comm/local/local_ranks.h"
#include "phalanx/ops/elementwise.h"
#include "phalanx/ops/ref/ref_backend.h"

namespace phalanx {
namespace {

// The ranks of a group, a bit for each.
int members_of(Communicator& world, Communicator* group) {
  if (group == nullptr) return 1 << world.rank();
  const auto backend = make_ref_backend();
  Arena memory("memory", 1 << 12);
  Arena workspace("workspace", 1 << 12);
  Context context{.backend = *backend, .workspace = workspace};
  const Tensor bits = memory.allocate(DType::kF64, {1});
  ops::fill(context, {.x = bits, .value = static_cast<double>(1 << world.rank())});
  group->all_reduce(context, bits, Reduction::kSum).wait(context.queue);
  return static_cast<int>(bits.span<double>()[0]);
}

// Tensor parallel size 2, data-parallel size 4; neighbours are tensor-parallel.
TEST(RankCommunicators, ShareOutDataParallelRanksAmongCopies) {
  run_local_ranks(8, {}, [](Communicator& world) {
    const RankGrid grid({.tensor = 2, .data = 4});
    const RankCommunicators ranks({.dense = grid}, world);
    const int odd = world.rank() % 2;
    const auto one = ranks.sharding(1).dense;
    EXPECT_EQ(members_of(world, one.shards.get()), 0b01010101 << odd);
    EXPECT_EQ(one.replicas, nullptr);
    const auto two = ranks.sharding(2).dense;
    EXPECT_EQ(members_of(world, two.shards.get()), (world.rank() < 4 ? 0b00000101 : 0b01010000)
                                                       << odd);
    EXPECT_EQ(two.shards->rank(), world.rank() / 2 % 2);
    EXPECT_EQ(members_of(world, two.replicas.get()),
              (world.rank() / 2 % 2 == 0 ? 0b00010001 : 0b01000100) << odd);
    EXPECT_EQ(two.replicas->rank(), world.rank() / 4);
    EXPECT_EQ(two.shards->name(), "dp-shard");
    EXPECT_EQ(two.replicas->name(), "dp-replica");
    const auto four = ranks.sharding(4).dense;
    EXPECT_EQ(four.shards, nullptr);
    EXPECT_EQ(members_of(world, four.replicas.get()), 0b01010101 << odd);
    EXPECT_THROW(ranks.sharding(3), InternalError);
  });
}

// Of the four ranks that have the same experts.
TEST(RankCommunicators, ShareOutRanksOfExpertsAmongCopies) {
  run_local_ranks(8, {}, [](Communicator& world) {
    const RankCommunicators ranks(parallel_grids({.world = 8, .expert = 2}), world);
    const int odd = world.rank() % 2;
    const PerDomain<RankCommunicators::Sharding> two = ranks.sharding(2);
    const int low = world.rank() < 4 ? 0 : 4;
    EXPECT_EQ(members_of(world, two.dense.shards.get()), 0b1111 << low);
    EXPECT_EQ(members_of(world, two.expert.shards.get()), 0b0101 << (low + odd));
    EXPECT_EQ(members_of(world, two.expert.replicas.get()), 0b00010001 << (world.rank() % 4));
    EXPECT_EQ(two.expert.shards->name(), "edp-shard");
    EXPECT_EQ(two.expert.replicas->name(), "edp-replica");
    EXPECT_EQ(ranks.sharding(4).expert.shards, nullptr);
  });
}

// 8 x 8 x 16 ranks, with sums over all groups.
TEST(RankCommunicators, AThousandRanksSplitAndMeet) {
  const RankGrid grid({.tensor = 8, .data = 16, .pipeline = 8});
  run_local_ranks(grid.world_size(), {}, [&](Communicator& world) {
    const RankCommunicators ranks({.dense = grid}, world);
    const auto backend = make_ref_backend();
    Arena memory("memory", 1 << 12);
    Arena workspace("workspace", 1 << 12);
    Context context{.backend = *backend, .workspace = workspace};
    world.barrier(context);
    const auto sum_of_ranks = [&](Communicator& group) {
      const Tensor sum = memory.allocate(DType::kF64, {1});
      ops::fill(context, {.x = sum, .value = static_cast<double>(world.rank())});
      group.all_reduce(context, sum, Reduction::kSum).wait(context.queue);
      return static_cast<int>(sum.span<double>()[0]);
    };
    const int rank = world.rank();
    EXPECT_EQ(sum_of_ranks(world), 1024 * 1023 / 2);
    EXPECT_EQ(sum_of_ranks(*ranks.tensor), 8 * (rank / 8 * 8) + 28);
    EXPECT_EQ(sum_of_ranks(*ranks.data), 16 * (rank % 8 + rank / 128 * 128) + 8 * 120);
    EXPECT_EQ(sum_of_ranks(*ranks.pipeline), 8 * (rank % 128) + 128 * 28);
    EXPECT_EQ(ranks.model()->size(), 64);
  });
}

// Two stages of two tensor-parallel and four data-parallel ranks. Four ranks share out the experts
// of a layer, cut each of them, or both.
TEST(RankCommunicators, ExpertsHaveAGridOfTheirOwn) {
  for (const int tensor : {1, 2, 4}) {
    const int expert = 4 / tensor;
    const ParallelGrids grids = parallel_grids(
        {.world = 16, .tensor = 2, .pipeline = 2, .expert = expert, .expert_tensor = tensor},
        kDefaultOrder);
    run_local_ranks(16, {.threads_per_rank = 1}, [&](Communicator& world) {
      const RankCommunicators ranks(grids, world);
      const int of_stage = world.rank() % 8;
      const ExpertParallel layout = ranks.expert_parallel();
      EXPECT_EQ(layout.tensor_rank, of_stage % tensor);
      EXPECT_EQ(layout.tensor_size, tensor);
      EXPECT_EQ(layout.rank, of_stage / tensor % expert);
      EXPECT_EQ(layout.size, expert);
      const ExpertRegion region = ranks.expert_region();
      EXPECT_EQ(region.all().size(), 4);
      EXPECT_EQ(region.all().rank(), layout.tensor_rank + tensor * layout.rank);
      EXPECT_EQ(region.experts() != nullptr ? region.experts()->rank() : 0, layout.rank);
      EXPECT_EQ(region.tensor() != nullptr ? region.tensor()->rank() : 0, layout.tensor_rank);

      const PerDomain<Communicator*> data = ranks.data_of_domains();
      EXPECT_EQ(data.dense->size(), 4);
      EXPECT_EQ(data.expert->size(), 2);
      EXPECT_EQ(data.expert->rank(), of_stage / 4);
      EXPECT_EQ(ranks.stage_of_domains().dense->size(), 2);
      EXPECT_EQ(ranks.stage_of_domains().expert->size(), 4);
      EXPECT_EQ(ranks.model_of_domains().dense->size(), 4);
      EXPECT_EQ(ranks.model_of_domains().expert->size(), 8);
    });
  }
}

}  // namespace
}  // namespace phalanx
