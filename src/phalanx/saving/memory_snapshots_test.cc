// Snapshots in memory hold what a checkpoint on disk holds, the newest one stays while the next is
// written, and a rank that cannot write costs that snapshot alone.

#include "phalanx/saving/memory_snapshots.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <gmock/gmock.h>

#include <sstream>

#include "phalanx/checkpoint/digest.h"
#include "phalanx/checkpoint/test_support.h"
#include "phalanx/rendezvous/local_mailbox.h"
#include "phalanx/saving/pattern_test_support.h"
#include "phalanx/saving/run_checkpoint.h"
#include "phalanx/start/run_setup.h"

namespace phalanx {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing_support::resolved;

class MemorySnapshotsTest : public RunTest {
 protected:
  // Ranks of `layout` that take a snapshot after each of these iterations. Their weights are drawn
  // once; the first rank saves them on disk, too.
  void run(const Layout& layout, std::int64_t begin, std::int64_t end, const std::string& start,
           const std::string& loaded = "") const {
    TrainConfig c = resolved(layout, true);
    c.run.memory_snapshot_interval = interval_;
    c.run.memory_files = descriptors_.empty() ? files_.to_text() : descriptors_;
    const std::vector<InputCopy> copies = {{.name = "vocab.json", .bytes = "{}"}};
    LocalMailbox mailbox;
    run_ranks(c, *make_model(c, 49), [&](Rank& rank) {
      rank.initialise();
      const int number = rank.ranks().world->rank();
      MemorySnapshots snapshots(
          c.run, rank,
          {.local_rank = number, .epoch_prefix = start, .iteration = begin - 1, .loaded = loaded},
          copies);
      for (std::int64_t i = begin; i < end; ++i) {
        snapshots.after(i, [&] { return testing_support::example_manifest(i); });
      }
      testing_support::save_in_parts(rank, {.mailbox = &mailbox}, path("save"), "e",
                                     testing_support::example_manifest(end - 1));
    });
  }
  std::vector<std::string> epochs() const {
    std::vector<std::string> epochs;
    for (const auto& one : memory_checkpoints(files_)) epochs.push_back(one.epoch);
    return epochs;
  }

  MemoryFiles files_ = MemoryFiles::make(4);
  // Of memory files of which this rank's can only be read.
  std::string with_read_only(int failing, int read_only) const {
    std::string text;
    for (int rank = 0; rank < files_.ranks(); ++rank) {
      for (int turn = 0; turn < kMemoryFilesOfRank; ++turn) {
        text += fmt::format("{}{}", text.empty() ? "" : ",",
                            rank == failing ? read_only : files_.descriptor(rank, turn));
      }
    }
    return text;
  }

  std::string descriptors_;  // others than those of files_
  std::int64_t interval_ = 1;
};

TEST_F(MemorySnapshotsTest, HoldWhatTheDiskHolds) {
  for (const Layout& layout :
       {Layout{.data = 2, .zero = 1}, Layout{.tensor = 2, .pipeline = 2}, Layout{.data = 3}}) {
    files_ = MemoryFiles::make(4);
    run(layout, 5, 6, "run.1");
    ASSERT_THAT(epochs(), ElementsAre("run.1.m0"));
    const CheckpointReader memory(files_in_memory(files_, "run.1.m0"));
    EXPECT_EQ(to_json(digest_checkpoint(memory)),
              to_json(digest_checkpoint(CheckpointReader::open(path("save")))));
    EXPECT_EQ(memory.content_of("vocab.json"), "{}");
  }
}

// Ranks that share out experts, each with a bias, go on from a snapshot as if they had not stopped.
TEST_F(MemorySnapshotsTest, AGridOfExpertsGoesOnFromOne) {
  constexpr std::int64_t kTaken = 2;
  TrainConfig c = with_flags(
      with_layout(config(""), {.data = 2, .zero = 1}),
      "--bf16 --num-experts 4 --moe-ffn-hidden-size 24 --moe-router-score-function sigmoid "
      "--moe-router-enable-expert-bias --moe-router-bias-update-rate 0.01 "
      "--expert-model-parallel-size 2 --moe-token-dispatcher-type alltoall");
  c.run.memory_snapshot_interval = kTaken;
  c.run.memory_files = files_.to_text();
  const RunSetup setup(c);
  const std::vector<InputCopy> copies;
  const auto train_to_third = [&](const std::string& name, const std::string& loaded) {
    LocalMailbox mailbox;
    StepResult last;
    run_ranks(setup.config, *setup.model, [&](Rank& rank) {
      std::int64_t iteration = 0;
      if (loaded.empty()) {
        rank.initialise();
      } else {
        const CheckpointReader memory(files_in_memory(files_, loaded));
        iteration = load_run(setup.config, memory, rank).iteration;
        EXPECT_EQ(iteration, kTaken);
      }
      const int number = rank.ranks().world->rank();
      MemorySnapshots snapshots(
          setup.config.run, rank,
          {.local_rank = number, .epoch_prefix = name, .iteration = iteration, .loaded = loaded},
          copies);
      RunData::Stream stream(*setup.data, SplitKind::kTrain,
                             iteration * setup.config.layout.global_batch_size,
                             rank.ranks().coordinates);
      while (iteration < kTaken + 1) {
        ++iteration;
        const StepResult step =
            rank.train_step({.lr = 1e-2, .adam_step = iteration}, stream.source());
        snapshots.after(iteration, [&] { return testing_support::example_manifest(iteration); });
        if (number == 0) last = step;
      }
      testing_support::save_in_parts(rank, {.mailbox = &mailbox}, path(name), name,
                                     testing_support::example_manifest(iteration));
    });
    return last;
  };
  const StepResult straight = train_to_third("straight", "");
  const StepResult resumed = train_to_third("resumed", "straight.m0");
  EXPECT_EQ(resumed.loss(), straight.loss());
  EXPECT_EQ(resumed.grad_norm, straight.grad_norm);
  EXPECT_TRUE(equal("straight", "resumed")) << to_text(difference("straight", "resumed"));
}

TEST_F(MemorySnapshotsTest, TheNewestStaysWhileTheNextIsWritten) {
  run({.data = 2}, 1, 4, "run.1");
  EXPECT_THAT(epochs(), ElementsAre("run.1.m2", "run.1.m1"));
  // A run that began with one of them, whichever file that lies in, leaves it.
  run({.data = 2}, 4, 5, "run.2", "run.1.m2");
  EXPECT_THAT(epochs(), testing::UnorderedElementsAre("run.2.m0", "run.1.m2"));
  run({.data = 2}, 5, 6, "run.3", "run.2.m0");
  EXPECT_THAT(epochs(), testing::UnorderedElementsAre("run.3.m0", "run.2.m0"));
}

TEST_F(MemorySnapshotsTest, ARankThatCannotWriteCostsOneSnapshot) {
  run({.data = 2}, 1, 3, "run.1");
  for (const int failing : {0, 1}) {
    // That rank's files can only be read.
    const std::string file = fmt::format("/proc/self/fd/{}", files_.descriptor(failing, 0));
    const FileDescriptor read_only(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
    descriptors_ = with_read_only(failing, read_only.get());
    testing::internal::CaptureStderr();
    run({.data = 2}, 3, 4, "run.2", "run.1.m1");
    EXPECT_THAT(testing::internal::GetCapturedStderr(),
                HasSubstr(fmt::format("the snapshot of iteration 3 could not be taken by rank {}",
                                      failing)));
    EXPECT_THAT(epochs(), testing::Contains("run.1.m1"));
    EXPECT_THAT(epochs(), testing::Not(testing::Contains("run.2.m0")));
  }
}

// A copy of all states and a warning each cost too much for every iteration.
TEST_F(MemorySnapshotsTest, AFailedOneIsTriedAgainWhenTheNextIsDue) {
  const std::string file = fmt::format("/proc/self/fd/{}", files_.descriptor(1, 0));
  const FileDescriptor read_only(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  descriptors_ = with_read_only(1, read_only.get());
  interval_ = 4;
  for (const std::int64_t begin : {1, 3, 6}) {
    testing::internal::CaptureStderr();
    run({.data = 2}, begin, 14, "run.1");
    std::vector<std::string> tried;
    std::istringstream said(testing::internal::GetCapturedStderr());
    for (std::string line; std::getline(said, line);) {
      if (line.find("could not be taken") != line.npos) tried.push_back(line.substr(0, 40));
    }
    std::vector<std::string> due;
    for (const int iteration : {4, 8, 12}) {
      if (iteration < begin) continue;
      due.push_back(
          fmt::format("warning: the snapshot of iteration {} could", iteration).substr(0, 40));
    }
    EXPECT_EQ(tried, due) << "from iteration " << begin;
  }
  EXPECT_THAT(epochs(), testing::IsEmpty());
}

TEST(CheckMemorySnapshots, SaysWhatToDo) {
  RunConfig run;
  EXPECT_NO_THROW(check_memory_snapshots(run, 4, 3));
  run.memory_snapshot_interval = 2;
  const auto refusal = [&](int ranks, int hosts) {
    return error_of<ConfigError>([&] { check_memory_snapshots(run, ranks, hosts); });
  };
  EXPECT_THAT(refusal(1, 1), HasSubstr("start the run with `phalanx launch`"));
  const MemoryFiles files = MemoryFiles::make(2);
  run.memory_files = files.to_text();
  EXPECT_NO_THROW(check_memory_snapshots(run, 2, 1));
  EXPECT_THAT(refusal(4, 1), HasSubstr("--nproc-per-node 4"));
  EXPECT_THAT(refusal(2, 2), HasSubstr("the ranks are on 2 hosts"));
}

}  // namespace
}  // namespace phalanx
