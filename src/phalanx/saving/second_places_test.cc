// Second places get the checkpoints of --save, and a run resumes from the newest of all.

#include "phalanx/saving/second_places.h"

#include <gmock/gmock.h>

#include <fstream>

#include "phalanx/checkpoint/verified_marks.h"
#include "phalanx/saving/non_persistent.h"
#include "phalanx/train/test_support.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class SecondPlacesTest : public RunTest {
 protected:
  TrainConfig saving(const std::string& save, const std::string& flags) const {
    return with_flags(config(save),
                      "--save-interval 2 --lr-decay-iters 6 --overwrite false " + flags);
  }
  std::string copying() const { return "--save-copy-interval 3 --save-copy " + path("copy") + " "; }
  static std::string not_lasting() {
    return "--non-persistent-save-interval 1 --non-persistent-ckpt-type global ";
  }
  static TrainConfig resuming(TrainConfig c) {
    c.run.load = c.run.save;
    c.run.exit_interval = 0;
    return c;
  }
};

TEST_F(SecondPlacesTest, ACopyIsACheckpointLikeAnyOther) {
  for (const std::string layout :
       {"",
        "--world-size 2 --ckpt-fully-parallel-save --num-experts 4 --moe-ffn-hidden-size 24 "
        "--expert-model-parallel-size 2 "}) {
    SCOPED_TRACE(layout);
    train(saving("run", copying() + layout + "--overwrite"));
    EXPECT_THAT(iterations("run"), ElementsAre(2, 4, 6));
    EXPECT_THAT(iterations("copy"), ElementsAre(3, 6));
    EXPECT_TRUE(equal("run", "copy"));
    EXPECT_TRUE(VerifiedMarks(path("copy")).has(fs::path(path("copy")) / "iter_0000006"));
    // The first disk is lost.
    fs::remove_all(path("run"));
    TrainConfig c = saving("other", layout);
    c.run.load = path("copy");
    c.run.train_iters = 8;
    train(c);
    EXPECT_EQ(CheckpointReader::open(path("other")).manifest().iteration, 8);
    fs::remove_all(path("copy"));
    fs::remove_all(path("other"));
  }
}

TEST_F(SecondPlacesTest, AFailureThereIsAWarning) {
  fs::create_directory(path("copy"));
  std::ofstream(path("copy") + "/iter_0000003") << "in the way";
  TrainConfig c = saving("run", copying());
  testing::internal::CaptureStderr();
  train(c);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("iter_0000003"));
  EXPECT_THAT(iterations("run"), ElementsAre(2, 4, 6));
  EXPECT_THAT(iterations("copy"), ElementsAre(6));
}

TEST_F(SecondPlacesTest, OneRunHasThem) {
  train(saving("run", copying()));
  const std::string said = refusal(saving("other", copying()));
  EXPECT_THAT(said, HasSubstr("--save-copy " + path("copy")));
  EXPECT_THAT(said, HasSubstr("another run, at iteration 3"));
  TrainConfig c = resuming(saving("run", copying()));
  c.run.train_iters = 8;
  train(c);
  EXPECT_THAT(iterations("copy"), ElementsAre(3, 6, 8));
}

// A start that was killed between its copy and its save leaves a copy that is newer than --save.
TEST_F(SecondPlacesTest, ACopyOfAKilledStartIsOfThisRun) {
  train(saving("straight", ""));
  TrainConfig c = saving("run", copying() + "--exit-interval 4");
  train(c);
  const auto kill_before_its_save = [&] { fs::remove_all(path("run") + "/iter_0000004"); };
  kill_before_its_save();
  c = resuming(c);
  c.run.exit_interval = 4;
  for (int killed = 0; killed < 2; ++killed) {
    train(c);
    EXPECT_THAT(iterations("copy"), ElementsAre(3));
    kill_before_its_save();
  }
  c.run.exit_interval = 0;
  train(c);
  EXPECT_TRUE(equal("straight", "run"));
  EXPECT_TRUE(equal("straight", "copy"));
}

TEST_F(SecondPlacesTest, AResumeTakesWhatDoesNotLastWhereItIsNewer) {
  train(saving("straight", ""));
  for (const std::string& directory : {std::string(), path("fast")}) {
    TrainConfig c = saving("run", not_lasting() + "--exit-interval 5 --overwrite");
    c.run.non_persistent_global_ckpt_dir = directory;
    c.run.save_interval = 3;
    train(c);
    const fs::path place = non_persistent_directory(c.run, c.run.save);
    EXPECT_EQ(place,
              directory.empty() ? fs::path(path("run")) / "non_persistent" : fs::path(directory));
    ASSERT_THAT(iterations(place.lexically_relative(directory_).string()), ElementsAre(4));
    // As if the run had been killed before its last save.
    fs::remove_all(path("run") + "/iter_0000005");
    EXPECT_EQ(newest_non_persistent(c.run, c.run.save)->iteration, 4);
    train(resuming(c));
    EXPECT_TRUE(equal("straight", "run"));
    EXPECT_EQ(losses("straight"), losses("run"));
    EXPECT_EQ(CheckpointReader::open(path("run")).manifest().start, 2);
    EXPECT_EQ(newest_non_persistent(c.run, c.run.save), std::nullopt);
    fs::remove_all(path("run"));
    fs::remove_all(place);
  }
}

TEST_F(SecondPlacesTest, WhatDoesNotLastAndIsDamagedIsPassedOver) {
  train(saving("straight", ""));
  TrainConfig c = saving("run", not_lasting() + "--exit-interval 5");
  c.run.save_interval = 3;
  train(c);
  fs::remove_all(path("run") + "/iter_0000005");
  fs::resize_file(path("run") + "/non_persistent/iter_0000004/model.safetensors", 100);
  testing::internal::CaptureStderr();
  train(resuming(c));
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("non_persistent/iter_0000004"));
  EXPECT_TRUE(equal("straight", "run"));
}

TEST_F(SecondPlacesTest, AnotherRunsIsNotTaken) {
  TrainConfig c = saving("run", not_lasting());
  c.run.non_persistent_global_ckpt_dir = path("fast");
  train(c);
  TrainConfig other = saving("other", "--exit-interval 2");
  train(other);
  other.run.non_persistent_ckpt_type = "global";
  other.run.non_persistent_global_ckpt_dir = path("fast");
  EXPECT_EQ(newest_non_persistent(other.run, other.run.save), std::nullopt);
  other.run.non_persistent_save_interval = 1;
  EXPECT_THAT(refusal(resuming(other)), HasSubstr("holds another run"));
}

}  // namespace
}  // namespace phalanx
