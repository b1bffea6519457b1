// Ranks whose tensors lie on a device: nothing of the program around the ops reads or writes them
// in place, and hosts tell each other their numbers over a communicator of their own.

#include <gmock/gmock.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "phalanx/checkpoint/checkpoint_reader.h"
#include "phalanx/checkpoint/digest.h"
#include "phalanx/checkpoint/memory_files.h"
#include "phalanx/checkpoint/test_support.h"
#include "phalanx/rank/device_test_support.h"
#include "phalanx/rank/gather.h"
#include "phalanx/rendezvous/local_mailbox.h"
#include "phalanx/saving/memory_snapshots.h"
#include "phalanx/saving/run_checkpoint.h"
#include "phalanx/saving/run_saver.h"
#include "phalanx/start/run_setup.h"
#include "phalanx/train/test_support.h"
#include "phalanx/watch/finite.h"
#include "phalanx/watch/replica_check.h"

namespace phalanx {
namespace {

using testing::HasSubstr;
using testing_support::DeviceCommunicator;
using testing_support::DeviceMemory;
using testing_support::TestDevice;

// A rank of a run, on the host or on a device.
class PlacedRank {
 public:
  PlacedRank(const RunSetup& setup, Communicator& hosts, bool on_device) {
    if (on_device) {
      std::vector<std::vector<int>> all(1);
      for (int r = 0; r < hosts.size(); ++r) all[0].push_back(r);
      devices_.emplace(hosts.split(all, "world"), memory_);
      ranks_.emplace(setup.grids, *devices_, nullptr, &hosts);
      auto device = std::make_unique<TestDevice>(memory_);
      device_ = device.get();
      backend_ = std::move(device);
    } else {
      ranks_.emplace(setup.grids, hosts);
      backend_ = make_cpu_backend(1, cpu::ProductPrecision::kFp32);
    }
    arenas_.emplace(setup.plan_of(hosts.rank()).bytes, on_device ? memory_ : host_memory());
    memory_.know(arenas_->all());
    rank_.emplace(setup.config, *setup.model, setup.programs, *ranks_, *backend_, *arenas_);
  }
  ~PlacedRank() {
    // Peers may read this rank's parameters until all of the last step have come in.
    if (std::uncaught_exceptions() == 0) rank_->finish_gather();
  }
  PlacedRank(const PlacedRank&) = delete;
  PlacedRank& operator=(const PlacedRank&) = delete;

  Rank& rank() { return *rank_; }
  TestDevice& device() { return *device_; }
  const RankArenas& arenas() const { return *arenas_; }

 private:
  DeviceMemory memory_;
  std::optional<DeviceCommunicator> devices_;
  std::optional<RankCommunicators> ranks_;
  TestDevice* device_ = nullptr;
  std::unique_ptr<Backend> backend_;
  std::optional<RankArenas> arenas_;
  std::optional<Rank> rank_;
};

class DeviceRunTest : public RunTest {
 protected:
  TrainConfig config_of(const std::string& save, const Layout& layout, const char* flags) const {
    TrainConfig c = with_flags(with_layout(config(save), layout), flags);
    c.layout.global_batch_size = 4 * layout.data;
    c.model.matmul_precision = "fp32";  // as the test's device computes
    c.layout.ddp_bucket_size = 5000;    // shards begin and end amid parameters and rows
    return c;
  }

  // Trains from `loaded`, or from drawn weights, to an iteration; saves the one before the last
  // and the last; evaluates. The results of all iterations of rank 0.
  std::vector<StepResult> train(const TrainConfig& c, std::int64_t last, bool on_device,
                                const std::string& loaded = "") {
    const RunSetup setup(c);
    setup.directory->claim();
    LocalMailbox mailbox;
    std::vector<StepResult> results;
    run_local_ranks(setup.grids.dense.world_size(), {}, [&](Communicator& world) {
      PlacedRank placed(setup, world, on_device);
      Rank& rank = placed.rank();
      RunState state;
      if (loaded.empty()) {
        rank.initialise();
      } else {
        state = load_run(setup.config, CheckpointReader::open(path(loaded)), rank);
      }
      const std::int64_t samples = state.iteration * c.layout.global_batch_size;
      const auto stream = setup.stream(SplitKind::kTrain, samples, rank.ranks().coordinates);
      StepTimers timers;
      RunSaver saver(setup.saved_run(), setup.save_target(), rank,
                     {.note = [](const RunNote&) {},
                      .timers = timers,
                      .times = [] { return std::vector<TimerRow>(); }},
                     {.mailbox = &mailbox});
      std::vector<StepResult> mine;
      while (state.iteration < last) {
        ++state.iteration;
        mine.push_back(
            rank.train_step({.lr = 1e-2, .adam_step = state.iteration}, stream->source()));
        saver.poll(state.iteration);
        if (state.iteration == last - 1) saver.save(state, RunSaver::Occasion::kPeriodic);
      }
      saver.save(state, RunSaver::Occasion::kLeaving);
      mine.push_back(rank.evaluate(stream->source()));
      EXPECT_EQ(rank.largest_of_all(world.rank()), world.size() - 1);
      const auto texts =
          gather_texts(*rank.ranks().control, rank.host_context(), std::to_string(world.rank()));
      EXPECT_EQ(texts.back(), std::to_string(world.size() - 1));
      check_replicas(rank, setup.places, last, [] { return std::string(); });
      for (ParamId id = 0; id < rank.table().size(); ++id) {
        EXPECT_TRUE(is_finite(rank.context(), rank.parameters().weight(id)));
      }
      if (world.rank() == 0) results = std::move(mine);
    });
    return results;
  }

  static void expect_equal(const std::vector<StepResult>& found,
                           const std::vector<StepResult>& expected) {
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].loss(), expected[i].loss()) << i;
      EXPECT_EQ(found[i].tokens(), expected[i].tokens()) << i;
      EXPECT_EQ(found[i].grad_norm, expected[i].grad_norm) << i;
    }
  }
};

// Trained, saved, loaded by the other and trained on: the same bits.
TEST_F(DeviceRunTest, ARunOnADeviceIsOneOnTheHost) {
  struct Setting {
    Layout layout;
    const char* flags;
  };
  for (const Setting& setting : {
           Setting{{}, ""},
           Setting{{.tensor = 2, .data = 2, .sequence = true, .sharded = true, .overlaps = true},
                   "--bf16"},
           Setting{{.data = 2, .zero = 3}, "--ckpt-fully-parallel-save"},
           Setting{{.tensor = 2, .pipeline = 2},
                   "--num-layers 4 --ckpt-fully-parallel-save --bf16"},
           Setting{{.data = 2, .sharded = true}, "--async-save"},
       }) {
    SCOPED_TRACE(setting.flags);
    const auto c = [&](const std::string& save) {
      return config_of(save, setting.layout, setting.flags);
    };
    const auto expected = train(c("host"), 2, false);
    expect_equal(train(c("device"), 2, true), expected);
    EXPECT_TRUE(equal("device", "host"));
    EXPECT_EQ(iterations("device"), iterations("host"));
    const auto resumed = train(c("host on"), 3, false, "device");
    expect_equal(train(c("device on"), 3, true, "host"), resumed);
    EXPECT_TRUE(equal("device on", "host on"));
  }
}

TEST_F(DeviceRunTest, ASnapshotInMemoryHoldsWhatTheDeviceHas) {
  const MemoryFiles files = MemoryFiles::make(4);
  TrainConfig c = config_of("", {.tensor = 2, .data = 2, .zero = 1}, "--bf16");
  c.run.memory_snapshot_interval = 1;
  c.run.memory_files = files.to_text();
  const RunSetup setup(c);
  std::vector<std::string> digests;
  for (const bool on_device : {false, true}) {
    const std::string start = on_device ? "device" : "host";
    run_local_ranks(setup.grids.dense.world_size(), {}, [&](Communicator& world) {
      PlacedRank placed(setup, world, on_device);
      placed.rank().initialise();
      const std::vector<InputCopy> copies;
      MemorySnapshots snapshots(
          setup.config.run, placed.rank(),
          {.local_rank = world.rank(), .epoch_prefix = start, .iteration = 0, .loaded = {}},
          copies);
      snapshots.after(1, [] { return testing_support::example_manifest(1); });
    });
    const CheckpointReader memory(files_in_memory(files, start + ".m0"));
    digests.push_back(to_json(digest_checkpoint(memory)));
  }
  EXPECT_EQ(digests[1], digests[0]);
}

// What kernels found wrong ends the step that reads their words.
TEST_F(DeviceRunTest, FaultsComeWithTheResultsOfAStep) {
  const RunSetup setup(config_of("", {}, ""));
  run_local_ranks(1, {}, [&](Communicator& world) {
    PlacedRank placed(setup, world, true);
    placed.rank().initialise();
    const auto stream = setup.stream(SplitKind::kTrain, 0, {});
    placed.rank().train_step({.lr = 1e-2}, stream->source());
    placed.device().fault = "target 60000";
    EXPECT_THAT(error_of([&] { placed.rank().train_step({.lr = 1e-2}, stream->source()); }),
                HasSubstr("target 60000"));
    EXPECT_THAT(error_of([&] { placed.rank().evaluate(stream->source()); }),
                HasSubstr("target 60000"));
  });
}

}  // namespace
}  // namespace phalanx
