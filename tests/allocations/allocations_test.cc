// After its first step a run allocates no large memory: all tensors lie in arenas, and what is not
// a tensor is made once and used again.

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <ranges>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "large_allocations.h"
#include "phalanx/base/text_batches.h"
#include "phalanx/data/host_batch.h"
#include "phalanx/flag_table/train_flags.h"
#include "phalanx/rules/resolve.h"
#include "phalanx/settings/config_views.h"
#include "phalanx/train/test_support.h"

namespace phalanx {
namespace {

constexpr std::int64_t kVocabulary = 50;

// Very deep and narrow: what grows with the layers alone is large, every tensor is small.
TrainConfig deep(const Layout& layout) {
  TrainConfig c =
      with_flags({},
                 "--num-layers 128 --hidden-size 8 --num-attention-heads 4 --seq-length 8 "
                 "--max-position-embeddings 8 --micro-batch-size 1 --global-batch-size 4 "
                 "--threads-per-rank 1 --attention-dropout 0.1 --hidden-dropout 0.1");
  c = with_layout(std::move(c), layout);
  return c;
}

HostBatch batch_of(const TrainConfig& c) {
  HostBatch batch(gpt_batch_schema(c.data.seq_length), c.layout.micro_batch_size);
  const auto tokens = batch.column<std::int32_t>("tokens");
  const std::ranges::iota_view places(0, static_cast<std::int32_t>(tokens.size()));
  for (const char* name : {"tokens", "position_ids", "position"}) {
    std::ranges::copy(places, batch.column<std::int32_t>(name).begin());
  }
  std::ranges::transform(tokens, batch.column<std::int32_t>("labels").begin(),
                         [](std::int32_t token) { return token + 1; });
  std::ranges::fill(batch.column<float>("loss_mask"), 1.0F);
  return batch;
}

// The ranks' training steps and evaluations after the first of each.
class Allocations : public testing::TestWithParam<Layout> {};

TEST_P(Allocations, StepsAfterTheFirstMakeNoLargeOnes) {
  TrainConfig config = deep(GetParam());
  resolve(config, false);
  const HostBatch batch = batch_of(config);
  run_ranks(config, *make_model(config, kVocabulary), [&](Rank& rank) {
    Communicator& world = *rank.ranks().world;
    const auto source = [&](int /*microbatch*/) -> const HostBatch& { return batch; };
    const auto step = [&](int number) {
      rank.train_step({.lr = 1e-3, .adam_step = number}, source);
      rank.evaluate(source);
    };
    rank.initialise();
    step(1);
    world.barrier(rank.context());
    if (world.rank() == 0) forget_allocations();
    world.barrier(rank.context());
    for (const int number : {2, 3}) step(number);
    world.barrier(rank.context());
    EXPECT_EQ(large_allocations(), 0) << "the largest had " << largest_allocation() << " bytes";
  });
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, Allocations,
    testing::Values(
        Layout{.name = "one"}, Layout{.name = "tensor", .tensor = 2, .sequence = true},
        Layout{.name = "data", .data = 2, .sharded = true, .overlaps = true},
        Layout{.name = "pipeline", .tensor = 2, .pipeline = 2, .schedule = "1f1b"},
        Layout{.name = "interleaved", .pipeline = 2, .schedule = "interleaved", .chunks = 2},
        Layout{.name = "wave", .pipeline = 2, .schedule = "zb-v"}),
    [](const auto& layout) { return std::string(layout.param.name); });

// A whole run with its data, of microbatches whose every column is large: iterations and
// evaluations behind the first add nothing.
class RunAllocations : public RunTest {
 protected:
  std::int64_t count(std::int64_t iterations) const {
    TrainConfig c = with_flags(config(""),
                               "--num-layers 1 --hidden-size 8 --micro-batch-size 1024 "
                               "--global-batch-size 2048 --train-iters 8");
    c.run.exit_interval = iterations;
    c.run.eval_interval = 1;
    forget_allocations();
    EXPECT_EQ(pretrain(c), RunEnd::kFinished);
    return large_allocations();
  }
};

TEST_F(RunAllocations, AreThoseOfItsFirstIteration) {
  train_flags();  // the table is made once
  const std::int64_t first = count(2);
  EXPECT_GT(first, 0);
  EXPECT_EQ(count(6), first);
}

// The count itself, of all threads.
TEST(LargeAllocations, AreCounted) {
  forget_allocations();
  const std::vector<char> small(kLargeAllocation - 1);
  EXPECT_EQ(large_allocations(), 0);
  EXPECT_EQ(largest_allocation(), small.size());
  std::thread([] { EXPECT_NE(std::vector<char>(kLargeAllocation).data(), nullptr); }).join();
  EXPECT_EQ(large_allocations(), 1);
  EXPECT_EQ(largest_allocation(), kLargeAllocation);
}

}  // namespace
}  // namespace phalanx
