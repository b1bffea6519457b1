#include "phalanx/saving/run_directory.h"

#include <gmock/gmock.h>

#include <fstream>

#include "phalanx/base/error.h"
#include "phalanx/checkpoint/checkpoint_directory.h"
#include "phalanx/train/test_support.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class RunDirectoryTest : public RunTest {
 protected:
  // A run of six iterations with a checkpoint after every second one.
  TrainConfig saving(const std::string& save) const {
    return with_flags(config(save), "--save-interval 2 --overwrite false");
  }
  TrainConfig resuming(const std::string& save) const {
    TrainConfig c = saving(save);
    c.run.load = c.run.save;
    return c;
  }
  void damage(const std::string& file) const {
    const fs::path damaged = path(file);
    std::fstream stream(damaged, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekp(-5, std::ios::end);
    stream.put('\x55');
    ASSERT_TRUE(stream.good()) << damaged;
  }
};

// Also what is left where a run is killed between a checkpoint and its tracker.
TEST_F(RunDirectoryTest, ALostTrackerLosesNothing) {
  TrainConfig straight = saving("straight");
  train(straight);
  TrainConfig c = with_flags(resuming("parts"), "--exit-interval 4");
  train(c);
  fs::remove(fs::path(c.run.save) / kTrackerName);
  c.run.exit_interval = 0;
  train(c);
  EXPECT_TRUE(equal("straight", "parts"));
  EXPECT_EQ(losses("straight"), losses("parts"));
}

TEST_F(RunDirectoryTest, AStartHasANumberAndTheRunAName) {
  TrainConfig c = with_flags(resuming("run"), "--exit-interval 2");
  train(c);
  const Manifest first = CheckpointReader::open(c.run.save).manifest();
  c.run.exit_interval = 4;
  train(c);
  c.run.exit_interval = 0;
  train(c);
  const Manifest third = CheckpointReader::open(c.run.save).manifest();
  EXPECT_EQ(first.run_id.size(), 32U);
  EXPECT_EQ(third.run_id, first.run_id);
  EXPECT_EQ(first.start, 1);
  EXPECT_EQ(third.start, 3);
}

TEST_F(RunDirectoryTest, GoingBackIsAskedForTwice) {
  train(saving("run"));
  const std::string before = metrics_text("run");
  TrainConfig c = with_flags(resuming("run"), "--ckpt-step 2");
  EXPECT_THAT(refusal(c), testing::AllOf(HasSubstr("--ckpt-step 2"), HasSubstr("iteration 6"),
                                         HasSubstr("--overwrite")));
  EXPECT_EQ(metrics_text("run"), before);
  EXPECT_THAT(iterations("run"), ElementsAre(2, 4, 6));
  // An iteration of the directory that is named as a path is the same.
  TrainConfig named = resuming("run");
  named.run.load = (fs::path(named.run.save) / iteration_directory_name(2)).string();
  EXPECT_THAT(refusal(named), HasSubstr("--overwrite"));

  set_flags(c, "--overwrite --exit-interval 3");
  train(c);
  EXPECT_THAT(iterations("run"), ElementsAre(2, 3));
  EXPECT_THAT(iterations("run/abandoned-1"), ElementsAre(4, 6));
  EXPECT_THAT(metric("run", "iteration"), ElementsAre(1, 2, 3));
  EXPECT_THAT(metric("run/abandoned-1", "iteration"), ElementsAre(3, 4, 5, 6));
  EXPECT_EQ(read_tracker(c.run.save), 3);

  // From here on it is a normal run with the bits of the first.
  const auto first = numbers("run/abandoned-1", "lm_loss");
  train(resuming("run"));
  EXPECT_THAT(metric("run", "iteration"), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_TRUE(equal("run", "run/abandoned-1"));
  EXPECT_EQ(losses("run").back(), first.back());
}

TEST_F(RunDirectoryTest, TheNewestMayBeNamed) {
  TrainConfig c = with_flags(resuming("run"), "--exit-interval 4");
  train(c);
  set_flags(c, "--exit-interval 0 --ckpt-step 4");
  train(c);
  EXPECT_THAT(iterations("run"), ElementsAre(2, 4, 6));
  EXPECT_FALSE(fs::exists(path("run/abandoned-1")));
}

TEST_F(RunDirectoryTest, ADamagedCheckpointIsMovedAsideUnasked) {
  train(saving("straight"));
  TrainConfig c = with_flags(resuming("run"), "--exit-interval 4");
  train(c);
  damage("run/iter_0000004/model.safetensors");
  c.run.exit_interval = 0;
  train(c);
  EXPECT_TRUE(equal("straight", "run"));
  EXPECT_EQ(losses("straight"), losses("run"));
  EXPECT_TRUE(fs::exists(path("run/abandoned-1/iter_0000004")));
}

TEST_F(RunDirectoryTest, AnotherRunIsNotOverwritten) {
  train(saving("run"));
  const std::string before = metrics_text("run");
  EXPECT_THAT(refusal(saving("run")),
              testing::AllOf(HasSubstr("holds a run at iteration 6"), HasSubstr("--load"),
                             HasSubstr("--overwrite")));
  TrainConfig finetune = with_flags(resuming("run"), "--finetune");
  EXPECT_THAT(refusal(finetune), HasSubstr("--finetune"));
  EXPECT_EQ(metrics_text("run"), before);
  EXPECT_THAT(iterations("run"), ElementsAre(2, 4, 6));

  train(with_flags(saving("run"), "--overwrite --train-iters 2 --lr-warmup-iters 1"));
  EXPECT_THAT(iterations("run"), ElementsAre(2));
  EXPECT_THAT(metric("run", "iteration"), ElementsAre(1, 2));
  EXPECT_THAT(iterations("run/abandoned-1"), ElementsAre(2, 4, 6));
  EXPECT_EQ(metrics_text("run/abandoned-1"), before);
  EXPECT_NE(CheckpointReader::open(path("run")).manifest().run_id,
            CheckpointReader::open(path("run/abandoned-1")).manifest().run_id);
}

// A directory of another program, or the rest of a checkpoint.
TEST_F(RunDirectoryTest, WhatCannotBeReadIsNotMovedUnasked) {
  fs::create_directories(path("run/iter_0000003/mp_rank_00"));
  EXPECT_THAT(refusal(saving("run")),
              testing::AllOf(HasSubstr("iter_0000003"), HasSubstr("--overwrite")));
  EXPECT_TRUE(fs::exists(path("run/iter_0000003/mp_rank_00")));
  train(with_flags(saving("run"), "--overwrite"));
  EXPECT_TRUE(fs::exists(path("run/abandoned-1/iter_0000003/mp_rank_00")));
}

// A new run may begin with the directory's own weights if --overwrite is given.
TEST_F(RunDirectoryTest, AFinetunedRunMayTakeTheDirectory) {
  train(saving("run"));
  train(with_flags(resuming("run"), "--finetune --overwrite"));
  EXPECT_THAT(metric("run", "iteration"), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_LT(losses("run").front(), losses("run/abandoned-1").front());
}

TEST_F(RunDirectoryTest, AFailedStartMovesNothing) {
  train(saving("run"));
  TrainConfig c = with_flags(saving("run"), "--overwrite");
  c.data.data_path = {path("no-such-data")};
  EXPECT_THROW(pretrain(c), InputMissingError);
  EXPECT_THAT(iterations("run"), ElementsAre(2, 4, 6));
  EXPECT_FALSE(fs::exists(path("run/abandoned-1")));
}

// Launchers start the first attempt's command line again.
TEST_F(RunDirectoryTest, ARestartedAttemptGoesOn) {
  train(saving("base"));
  for (const bool finetune : {false, true}) {
    const std::string straight = fmt::format("straight{}", finetune);
    const std::string parts = fmt::format("parts{}", finetune);
    TrainConfig c = saving(straight);
    if (finetune) {
      c.run.finetune = true;
      c.run.load = path("base");
    }
    train(c);
    c.run.save = path(parts);
    c.run.exit_interval = 3;
    c.run.job = {{.name = "a launch", .restarts = 0}};
    train(c);
    c.run.restarts = 1;
    c.run.job[0].restarts = 1;
    c.run.exit_interval = 0;
    train(c);
    EXPECT_TRUE(equal(straight, parts)) << finetune;
    EXPECT_EQ(losses(straight), losses(parts)) << finetune;
  }
}

TEST_F(RunDirectoryTest, ADirectoryHasOneWriter) {
  TrainConfig c = saving("run");
  const auto lock = lock_save_directory(c.run);
  EXPECT_THAT(error_of(ErrorCode::kTemporary, [&] { pretrain(c); }),
              HasSubstr(std::to_string(::getpid())));
}

// --save inside a checkpoint would be removed with it. The attempt leaves nothing there.
TEST_F(RunDirectoryTest, ACheckpointIsNoPlaceForARun) {
  train(saving("other"));
  for (const char* inside : {"other/iter_0000004", "other/iter_0000004/run", "link/a/run"}) {
    std::error_code there_already;
    fs::create_directory_symlink(path("other/iter_0000004"), path("link"), there_already);
    EXPECT_THAT(refusal(saving(inside)),
                testing::AllOf(HasSubstr("--save"), HasSubstr(inside), HasSubstr("iter_0000004")));
  }
  EXPECT_FALSE(fs::exists(path("other/iter_0000004/.lock")));
  EXPECT_FALSE(fs::exists(path("other/iter_0000004/run")));
}

// Metrics of a run that saved nothing are replaced where it continues, and kept where it does not.
TEST_F(RunDirectoryTest, MetricsWithoutACheckpoint) {
  fs::create_directories(path("run"));
  const std::string lines = "{\"iteration\": 1, \"lm_loss\": 7}\n";
  const auto put = [&] { std::ofstream(path("run/metrics.jsonl")) << lines; };
  put();
  train(resuming("run"));
  EXPECT_FALSE(fs::exists(path("run/abandoned-1")));
  fs::remove_all(path("run"));
  fs::create_directories(path("run"));
  put();
  train(saving("run"));
  EXPECT_EQ(metrics_text("run/abandoned-1"), lines);
  EXPECT_THAT(metric("run", "iteration"), ElementsAre(1, 2, 3, 4, 5, 6));
}

}  // namespace
}  // namespace phalanx
