// Whole runs with parameters that are not trained: what changes, what a checkpoint has, resuming,
// also in another layout and in parts, and what is refused.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "phalanx/checkpoint/test_support.h"
#include "phalanx/train/test_support.h"

namespace phalanx {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr Layout kTwoStages{.name = "p2", .pipeline = 2};
constexpr Layout kSharded{.name = "d2-zero1", .data = 2, .sharded = true, .overlaps = true};
constexpr Layout kCut{.name = "t2-d2-zero2", .tensor = 2, .data = 2, .sequence = true, .zero = 2};

class FrozenRunTest : public RunTest {
 protected:
  // The embedding and the first layer are frozen.
  TrainConfig config(const std::string& save, const Layout& layout = {}) const {
    return with_layout(
        with_flags(RunTest::config(save),
                   "--micro-batch-size 1 --untie-embeddings-and-output-weights --eval-iters 0 "
                   "--bf16 --freeze embedding layers\\.0"),
        layout);
  }
  // The names of tensors that begin with a prefix, without it.
  std::set<std::string> names(const std::string& save, const std::string& prefix) const {
    std::set<std::string> found;
    const CheckpointReader reader = CheckpointReader::open(path(save));
    for (const auto& entry : reader.manifest().tensors) {
      if (entry.name.starts_with(prefix)) found.insert(entry.name.substr(prefix.size()));
    }
    return found;
  }
  // The weights that differ between two checkpoints.
  std::set<std::string> moved(const std::string& a, const std::string& b) const {
    std::set<std::string> found;
    for (const auto& tensor : difference(a, b).tensors) {
      if (!tensor.name.starts_with("optimizer.")) found.insert(tensor.name);
    }
    return found;
  }
};

bool is_frozen(const std::string& name) {
  return name.starts_with("embedding") || name.starts_with("decoder.layers.0.");
}

TEST_F(FrozenRunTest, ChangesAndKeepsStatesOfWhatIsTrainedAlone) {
  TrainConfig c = config("one");
  c.run.exit_interval = 1;
  train(c);
  c = config("six");
  train(c);
  std::set<std::string> trained;
  for (const std::string& name : names("six", "")) {
    if (!name.starts_with("optimizer.") && !is_frozen(name)) trained.insert(name);
  }
  EXPECT_EQ(moved("one", "six"), trained);
  for (const char* state :
       {"optimizer.exp_avg.", "optimizer.exp_avg_sq.", "optimizer.main_param."}) {
    EXPECT_EQ(names("six", state), trained) << state;
  }
}

TEST_F(FrozenRunTest, ResumesBitwise) { expect_resume_is_bitwise(config("straight")); }

TEST_F(FrozenRunTest, ResumesBitwiseFromParts) {
  expect_resume_is_bitwise(with_flags(config("straight", kSharded), "--ckpt-fully-parallel-save"));
}

TEST_F(FrozenRunTest, ResumesBitwiseFromPartsThatAreWrittenWhileItTrains) {
  expect_resume_is_bitwise(with_flags(config("straight", kTwoStages), "--async-save"));
}

// In other layouts frozen weights are those of the checkpoint, to the bit.
TEST_F(FrozenRunTest, ResumesInOtherLayouts) {
  train(config("straight"));
  const std::vector<double> expected = losses("straight");
  TrainConfig c = config("start");
  c.run.exit_interval = 3;
  train(c);
  for (const Layout& layout : {kTwoStages, kSharded, kCut}) {
    SCOPED_TRACE(layout.name);
    c = config(layout.name, layout);
    c.run.load = path("start");
    train(c);
    for (const std::string& name : moved("start", layout.name))
      EXPECT_FALSE(is_frozen(name)) << name;
    const std::vector<double> found = losses(layout.name);
    ASSERT_EQ(found.size(), 3U);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(found[i], expected[i + 3], 1e-2 * found[i]);
  }
}

TEST_F(FrozenRunTest, RefusesToResumeWithOtherTrainedParameters) {
  TrainConfig c = with_flags(config("run"), "--train-iters 2 --lr-warmup-iters 1");
  train(c);
  set_flags(c, "--train-iters 3");
  c.run.load = c.run.save;
  c.optimizer.override_opt_param_scheduler = true;
  c.optimizer.freeze = {"embedding"};
  EXPECT_THAT(refusal(c), AllOf(HasSubstr("trains decoder.layers.0."), HasSubstr("--freeze"),
                                HasSubstr("--no-load-optim")));
  c.optimizer.freeze = {"embedding", "layers\\.0", "\\.mlp\\."};
  EXPECT_THAT(refusal(c), HasSubstr("does not train decoder.layers.1.mlp"));
  c.run.no_load_optim = true;
  c.optimizer.override_opt_param_scheduler = false;
  train(c);
}

TEST_F(FrozenRunTest, SaysHowManyAreTrained) {
  testing::internal::CaptureStderr();
  train(with_flags(config(""), "--train-iters 1 --lr-warmup-iters 0"));
  // A layer of 12,736 and the head: 32 * 49 and its norm.
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("> trained of them: 14,"));
}

TEST_F(FrozenRunTest, RefusesWhatLeavesNothingOrMeansNothing) {
  EXPECT_THAT(refusal(with_flags(config(""), "--freeze .")), HasSubstr("leave no parameter"));
  EXPECT_THAT(refusal(with_flags(config(""), "--freeze layers\\.7")),
              AllOf(HasSubstr("--freeze 'layers\\.7'"), HasSubstr("in no name")));
  EXPECT_THAT(refusal(with_flags(config(""), "--trainable (")),
              HasSubstr("--trainable '(' is no regular expression"));
  EXPECT_THAT(refusal(with_flags(config("", {.data = 2}), "--zero-stage 3")),
              HasSubstr("--zero-stage 3"));
}

}  // namespace
}  // namespace phalanx
