// Whole runs that train adapters of a base: what their checkpoints have, resuming, also in another
// layout and in parts, beginning with adapters that are there, and what is refused.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "phalanx/checkpoint/base_checkpoint.h"
#include "phalanx/checkpoint/test_support.h"
#include "phalanx/train/test_support.h"

namespace phalanx {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr Layout kTwoStages{.name = "p2", .pipeline = 2};
constexpr Layout kSharded{.name = "d2-zero1", .data = 2, .sharded = true, .overlaps = true};
constexpr Layout kCut{.name = "t2-d2-zero2", .tensor = 2, .data = 2, .sequence = true, .zero = 2};

class AdapterRunTest : public RunTest {
 protected:
  AdapterRunTest() {
    TrainConfig c = with_flags(model("base"), "--train-iters 2 --lr-warmup-iters 0");
    train(c);
  }

  TrainConfig model(const std::string& save) const {
    return with_flags(RunTest::config(save), "--micro-batch-size 1 --eval-iters 0 --bf16");
  }
  TrainConfig config(const std::string& save, const Layout& layout = {}) const {
    TrainConfig c = with_flags(model(save), "--lora-rank 2 --lora-alpha 4 --lora-dropout 0.1");
    c.run.pretrained_checkpoint = path("base");
    return with_layout(c, layout);
  }
  std::set<std::string> names(const std::string& save) const {
    std::set<std::string> found;
    const CheckpointReader reader = CheckpointReader::open(path(save));
    for (const auto& entry : reader.manifest().tensors) found.insert(entry.name);
    return found;
  }
};

TEST_F(AdapterRunTest, SavesAdaptersAlone) {
  train(config("run"));
  for (const std::string& name : names("run")) EXPECT_THAT(name, HasSubstr(".lora."));
  const CheckpointReader reader = CheckpointReader::open(path("run"));
  ASSERT_TRUE(reader.manifest().base.has_value());
  const CheckpointReader base = CheckpointReader::open(path("base"));
  EXPECT_EQ(reader.manifest().base->path, base.directory().string());
  EXPECT_EQ(reader.manifest().base->weights_xxh3, digest_of_weights(base));
  // Whoever opens both finds everything.
  const CheckpointReader both = open_with_base(path("run"), Verify::kYes);
  const std::string word_table = "embedding.word_embeddings.weight";
  EXPECT_EQ(reader.find(word_table), nullptr);
  ASSERT_NE(both.find(word_table), nullptr);
  std::string expected, found;
  const auto collect = [](std::string& to) {
    return [&to](std::span<const std::byte> bytes) {
      to.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    };
  };
  base.visit(*base.find(word_table), collect(expected));
  both.visit(*both.find(word_table), collect(found));
  EXPECT_EQ(found, expected);
}

TEST_F(AdapterRunTest, ResumesBitwise) { expect_resume_is_bitwise(config("straight")); }

TEST_F(AdapterRunTest, ResumesBitwiseFromParts) {
  expect_resume_is_bitwise(with_flags(config("straight", kSharded), "--ckpt-fully-parallel-save"));
  EXPECT_EQ(CheckpointReader::open(path("straight")).manifest().parts.size(), 2U);
  for (const std::string& name : names("straight")) EXPECT_THAT(name, HasSubstr(".lora."));
}

TEST_F(AdapterRunTest, ResumesBitwiseFromPartsThatAreWrittenWhileItTrains) {
  expect_resume_is_bitwise(with_flags(config("straight", kTwoStages), "--async-save"));
}

TEST_F(AdapterRunTest, ResumesInOtherLayouts) {
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
    const std::vector<double> found = losses(layout.name);
    ASSERT_EQ(found.size(), 3U);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(found[i], expected[i + 3], 1e-2 * found[i]);
  }
}

// Adapters that are there and no update: the loss of the first iteration is theirs.
TEST_F(AdapterRunTest, BeginsWithAdaptersThatAreThere) {
  TrainConfig first = with_flags(config("first"), "--lora-dropout 0");
  train(first);
  TrainConfig c = with_flags(config("next"), "--lora-dropout 0");
  c.lora.load = path("first");
  train(c);
  TrainConfig further = with_flags(config("further"), "--lora-dropout 0");
  further.run.pretrained_checkpoint.clear();
  further.run.load = path("first");
  further.run.finetune = true;
  train(further);
  EXPECT_EQ(losses("next"), losses("further"));
  EXPECT_NE(losses("next"), losses("first"));
  c.lora.alpha = 8.0;
  EXPECT_THAT(refusal(c),
              AllOf(HasSubstr("--lora-load"), HasSubstr("--lora-rank 2 --lora-alpha 4")));
  c.lora.alpha = 4.0;
  c.lora.targets = {"q", "v"};
  EXPECT_THAT(refusal(c), HasSubstr("has no place in this model"));
}

// What was trained beside the adapters would be in no checkpoint of a run that does not train it.
TEST_F(AdapterRunTest, WhatStandsWholeBesideAdaptersMustBeTrained) {
  train(with_flags(config("first"), "--trainable word_embeddings"));
  TrainConfig c = config("next");
  c.lora.load = path("first");
  EXPECT_THAT(refusal(c), AllOf(HasSubstr("--lora-load"),
                                HasSubstr("has embedding.word_embeddings.weight whole beside")));
  TrainConfig further = config("further");
  further.run.pretrained_checkpoint.clear();
  further.run.load = path("first");
  further.run.finetune = true;
  EXPECT_THAT(refusal(further), HasSubstr("--trainable '^embedding.word_embeddings.weight$'"));
  train(with_flags(further, "--trainable word_embeddings"));
}

TEST_F(AdapterRunTest, TheBaseMayMoveButNotChange) {
  TrainConfig c = config("run");
  c.run.exit_interval = 3;
  train(c);
  c.run.load = path("run");
  c.run.exit_interval = 0;
  std::filesystem::rename(path("base"), path("moved"));
  EXPECT_THAT(error_of<InputMissingError>([&] { pretrain(c); }), HasSubstr("--lora-base"));
  TrainConfig other = with_flags(model("other"), "--train-iters 1 --lr-warmup-iters 0");
  train(other);
  c.lora.base = path("other");
  EXPECT_THAT(refusal(c), HasSubstr("the digest of its weights is"));
  c.lora.base = path("moved");
  train(c);
}

TEST_F(AdapterRunTest, RefusesWhatLosesTheBase) {
  TrainConfig c = config("base");
  EXPECT_THAT(refusal(c), HasSubstr("the base of the adapters"));
  c = config("run");
  c.run.pretrained_checkpoint.clear();
  c.run.load = path("base");
  EXPECT_THAT(refusal(c), HasSubstr("--finetune"));
  train(config("run"));
  c = model("whole");
  c.run.load = path("run");
  EXPECT_THAT(refusal(c), HasSubstr("has adapters alone"));
}

}  // namespace
}  // namespace phalanx
