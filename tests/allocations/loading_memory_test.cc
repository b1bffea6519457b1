// Loading takes no memory that grows with the states: beside them a rank has a block, what it sends
// of it, and a message.

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "phalanx/checkpoint/test_support.h"
#include "phalanx/rendezvous/local_mailbox.h"
#include "phalanx/saving/pattern_test_support.h"
#include "phalanx/saving/state_loader.h"
#include "phalanx/train/test_support.h"

namespace phalanx {
namespace {

// VmRSS or VmHWM of this process, in bytes.
std::int64_t memory_of(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word != key + ":") continue;
    std::int64_t kilobytes = 0;
    status >> kilobytes;
    return kilobytes << 10;
  }
  return -1;
}

// From now on VmHWM is the most of the memory to come. False where the system does not let us.
bool forget_peak() {
  std::ofstream file("/proc/self/clear_refs");
  file << 5 << std::flush;
  return file.good();
}

TEST(LoadingMemory, IsABlockAndItsMessages) {
  constexpr std::int64_t kBlock = std::int64_t{8} << 20;
  constexpr std::int64_t kRest = std::int64_t{12} << 20;
  const TemporaryDirectory directory("loading");
  TrainConfig config =
      with_flags({},
                 "--num-layers 3 --hidden-size 512 --num-attention-heads 4 --seq-length 8 "
                 "--max-position-embeddings 8 --micro-batch-size 1 --global-batch-size 4 "
                 "--threads-per-rank 1");
  const auto with = [&](const Layout& layout) {
    TrainConfig c = with_layout(config, layout);
    resolve(c, false);
    return c;
  };
  const TrainConfig saving = with({.data = 2, .sharded = true});
  const auto model = make_model(saving, 50);
  LocalMailbox mailbox;
  run_ranks(saving, *model, [&](Rank& rank) {
    rank.initialise();
    testing_support::save_in_parts(rank, {.mailbox = &mailbox}, directory.path(), "e",
                                   testing_support::example_manifest(1));
  });
  const CheckpointReader reader = CheckpointReader::open(directory.path(), Verify::kNo);
  std::int64_t stored = 0;
  for (const auto& part : reader.manifest().parts) stored += part.bytes;
  for (const Layout& layout : {Layout{.data = 2, .sharded = true}, Layout{.tensor = 2}}) {
    const TrainConfig loading = with(layout);
    ASSERT_GT(stored, 2 * 3 * kBlock + 2 * kRest);
    run_ranks(loading, *make_model(loading, 50), [&](Rank& rank) {
      Communicator& world = *rank.ranks().world;
      rank.initialise();  // takes the memory of the states
      world.barrier(rank.context());
      std::int64_t before = 0;
      bool is_measured = false;
      if (world.rank() == 0) {
        is_measured = forget_peak();
        before = memory_of("VmRSS");
      }
      world.barrier(rank.context());
      EXPECT_EQ(load_states(reader, rank, {}).fault, "");
      world.barrier(rank.context());
      if (!is_measured) return;
      EXPECT_LT(memory_of("VmHWM") - before, world.size() * 3 * kBlock + kRest);
    });
  }
}

}  // namespace
}  // namespace phalanx
