// After its first step a run allocates no large memory: all tensors lie in arenas, and what is not
// a tensor is made once and used again.

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "large_allocations.h"
#include "phalanx/base/text_batches.h"
#include "phalanx/data/gpt_columns.h"
#include "phalanx/flag_table/train_flags.h"
#include "phalanx/rules/resolve.h"
#include "phalanx/settings/config_views.h"
#include "phalanx/train/test_support.h"

namespace phalanx {
namespace {

constexpr std::int64_t kVocabulary = 50;

// Very deep and narrow: what grows with the layers alone is large, every tensor is small.
TrainConfig deep(const Layout& layout) {
  TrainConfig c;
  c.model.num_layers = 128;
  c.model.hidden_size = 8;
  c.model.num_attention_heads = 4;
  c.data.seq_length = 8;
  c.model.max_position_embeddings = 8;
  c.layout.micro_batch_size = 1;
  c.layout.global_batch_size = 4;
  c.layout.threads_per_rank = 1;
  c.model.attention_dropout = 0.1;
  c.model.hidden_dropout = 0.1;
  c = with_layout(std::move(c), layout);
  return c;
}

HostBatch batch_of(const TrainConfig& c) {
  HostBatch batch(gpt_batch_schema(c.data.seq_length), c.layout.micro_batch_size);
  const GptColumns columns(batch);
  for (std::size_t row = 0; row < columns.tokens.size(); ++row) {
    const auto position = static_cast<std::int32_t>(row);
    columns.tokens[row] = position;
    columns.labels[row] = position + 1;
    columns.position_ids[row] = position;
    columns.position[row] = position;
    columns.loss_mask[row] = 1.0F;
  }
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
    TrainConfig c = config("");
    c.model.num_layers = 1;
    c.model.hidden_size = 8;
    c.layout.micro_batch_size = 1024;
    c.layout.global_batch_size = 2048;
    c.run.train_iters = 8;
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
