// Runs that begin with experts made of the MLPs of a dense model.

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "phalanx/saving/upcycling.h"
#include "phalanx/train/test_support.h"

namespace phalanx {
namespace {

using testing::HasSubstr;

constexpr Layout kOne{};
constexpr Layout kData{.name = "d2", .data = 2};
constexpr Layout kSequence{.name = "t2-sp", .tensor = 2, .sequence = true};
constexpr Layout kStages{.name = "p2", .pipeline = 2};

class UpcyclingRunTest : public RunTest {
 protected:
  // A dense model that has learnt something, and a run that goes on from its weights.
  void train_dense(const std::string& model) {
    model_ =
        "--ffn-hidden-size 48 --micro-batch-size 1 --lr 1e-2 --lr-warmup-iters 0 --train-iters 4 " +
        model + " ";
    train(with_flags(config("dense"), model_));
    TrainConfig next = with_flags(config("next"), model_ + "--finetune --train-iters 1");
    next.run.load = path("dense");
    train(next);
  }
  TrainConfig upcycled(const Layout& layout, const std::string& flags,
                       const std::string& save) const {
    TrainConfig c = with_flags(config(save), model_ + "--moe-use-upcycling " + flags);
    c.run.load = path("dense");
    return with_layout(c, layout);
  }
  // How far the first loss is from that of the dense model.
  double distance(const std::string& save) const {
    return std::abs(losses(save).front() - losses("next").front());
  }
  // A stored fp32 tensor, row-major.
  std::vector<float> values(const std::string& save, const std::string& name) const {
    const auto reader = CheckpointReader::open(path(save));
    const Manifest::Entry& entry = *reader.find(name);
    std::vector<float> found(static_cast<std::size_t>(entry.shape.count()));
    reader.read_box(entry, whole_box(entry.shape), std::as_writable_bytes(std::span(found)));
    return found;
  }

  std::string model_;
};

constexpr const char* kFour = "--num-experts 4 --expert-tensor-parallel-size 1 ";
// Each token has both parts of two copies.
constexpr const char* kHalves =
    "--num-experts 8 --moe-router-topk 4 --moe-ffn-hidden-size 24 --moe-upcycling-granularity 2 "
    "--expert-tensor-parallel-size 1 ";

TEST_F(UpcyclingRunTest, CopiesComputeWhatTheDenseModelDoes) {
  train_dense("--swiglu");
  const auto expect_same = [&](const Layout& layout, const std::string& flags,
                               const std::string& save) {
    train(upcycled(layout, kFour + flags, save));
    EXPECT_LT(distance(save), 2e-6) << save;
  };
  expect_same(kOne, "", "one");
  expect_same(kData, "--expert-model-parallel-size 2 --moe-token-dispatcher-type alltoall", "e2");
  expect_same(kSequence, "--expert-tensor-parallel-size 2", "t2");
  expect_same(kOne, "--moe-layer-freq 2", "some");
  expect_same(kOne, "--moe-router-score-function sigmoid --moe-router-enable-expert-bias", "bias");
}

// Both have exact factors: of three equal ones, and of two.
TEST_F(UpcyclingRunTest, PartsComputeWhatTheDenseModelDoes) {
  for (const std::string activation : {"squaredrelu", "relu"}) {
    train_dense("--activation-func " + activation);
    for (const Layout& layout : {kOne, kData, kSequence, kStages}) {
      const std::string save = activation + layout.name;
      const std::string flags =
          layout.data == 2 ? "--expert-model-parallel-size 2 --use-distributed-optimizer" : "";
      train(upcycled(layout, kHalves + flags, save));
      EXPECT_LT(distance(save), 2e-6) << save;
    }
  }
}

// The softmax over all experts of a new router is only nearly uniform.
TEST_F(UpcyclingRunTest, ASoftmaxOverAllExpertsIsNear) {
  train_dense("--activation-func relu");
  train(upcycled(kOne, std::string(kHalves) + "--moe-router-pre-softmax", "near"));
  EXPECT_LT(distance("near"), 0.02);
}

TEST_F(UpcyclingRunTest, PartsAreThoseOfTheDenseWeights) {
  train_dense("--swiglu");
  // Weights are saved as they are loaded.
  train(upcycled(kOne, std::string(kHalves) + "--lr 1e-30 --min-lr 0 --train-iters 1", "halves"));
  const std::string layer = "decoder.layers.1.mlp.";
  const double factor = std::cbrt(2.0);
  const auto fc1 = values("dense", layer + "linear_fc1.weight");  // [96, 32]
  const auto fc2 = values("dense", layer + "linear_fc2.weight");  // [32, 48]
  for (std::size_t expert = 0; expert < 8; ++expert) {
    const std::string name = layer + "experts." + std::to_string(expert) + ".";
    const std::size_t j = expert % 2;
    const auto rows = values("halves", name + "linear_fc1.weight");     // [48, 32]
    const auto columns = values("halves", name + "linear_fc2.weight");  // [32, 24]
    for (std::size_t i = 0; i < 24 * 32; ++i) {
      EXPECT_EQ(rows[i], static_cast<float>(factor * fc1[j * 24 * 32 + i]));
      EXPECT_EQ(rows[24 * 32 + i], static_cast<float>(factor * fc1[(48 + j * 24) * 32 + i]));
      EXPECT_EQ(columns[i], static_cast<float>(factor * fc2[i / 24 * 48 + j * 24 + i % 24]));
    }
    EXPECT_EQ(values("halves", name + "linear_fc2.bias"),
              values("dense", layer + "linear_fc2.bias"));
  }
  const auto router = values("halves", layer + "router.weight");  // [8, 32]
  for (std::size_t row = 0; row < 8; row += 2) {
    EXPECT_EQ(std::memcmp(&router[row * 32], &router[(row + 1) * 32], 32 * sizeof(float)), 0);
    EXPECT_TRUE(row == 0 || router[row * 32] != router[0]);
  }
}

TEST_F(UpcyclingRunTest, AnyLayoutAndTypeMakesTheSameExperts) {
  for (const std::string type : {"", "--bf16 "}) {
    train_dense("--swiglu " + type);
    const std::string flags = std::string(kHalves) + type +
                              "--lr 1e-30 --min-lr 0 --weight-decay 0 --train-iters 1 "
                              "--no-save-optim ";
    train(upcycled(kOne, flags, "one"));
    Layout zero = kData;
    zero.zero = 3;
    zero.data = 4;
    train(upcycled(zero, flags + "--expert-model-parallel-size 2", "zero"));
    train(upcycled(kSequence, flags + "--expert-tensor-parallel-size 2", "t2"));
    train(upcycled(kData, flags + "--expert-model-parallel-size 2 --no-ckpt-fully-parallel-load",
                   "whole"));
    for (const std::string save : {"zero", "t2", "whole"}) {
      const auto found = difference("one", save);
      EXPECT_TRUE(found.tensors_equal()) << type << save << "\n" << to_text(found);
    }
  }
}

// As a run of experts, and by the same call, which begins with the dense model only once.
TEST_F(UpcyclingRunTest, GoesOnWithTheSameBits) {
  train_dense("--swiglu");
  TrainConfig straight = upcycled(kOne, kHalves, "straight");
  train(straight);
  TrainConfig parts = upcycled(kOne, kHalves, "parts");
  parts.run.exit_interval = 2;
  train(parts);
  parts.run.exit_interval = 0;
  parts.run.load = parts.run.save;
  parts.run.moe_use_upcycling = false;
  parts.run.moe_upcycling_granularity = 1;
  train(parts);
  TrainConfig same = upcycled(kOne, kHalves, "same");
  same.run.pretrained_checkpoint = same.run.load;
  same.run.load = same.run.save;
  for (const std::int64_t at : {2, 0}) {
    same.run.exit_interval = at;
    train(same);
  }
  for (const std::string save : {"parts", "same"}) {
    const auto found = difference("straight", save);
    EXPECT_TRUE(found.tensors_equal()) << save << "\n" << to_text(found);
    EXPECT_EQ(losses(save), losses("straight")) << save;
  }
}

TEST_F(UpcyclingRunTest, OtherCheckpointsAreRefused) {
  train_dense("--swiglu");
  EXPECT_THAT(refusal(upcycled(kOne, "--num-experts 4 --moe-upcycling-granularity 2", "new")),
              AllOf(HasSubstr("--moe-ffn-hidden-size 48 x --moe-upcycling-granularity 2 is 96"),
                    HasSubstr("have a width of 48: give --moe-ffn-hidden-size 24")));
  EXPECT_THAT(refusal(upcycled(kOne, std::string(kFour) + "--num-layers 3", "new")),
              HasSubstr("has no decoder.layers.2.mlp.linear_fc2.weight"));
  train(upcycled(kOne, kFour, "experts"));
  TrainConfig again = upcycled(kOne, kFour, "new");
  again.run.load = path("experts");
  EXPECT_THAT(refusal(again), HasSubstr("has experts already"));
  again.run.load = path("nothing");
  EXPECT_THAT(error_of<InputMissingError>([&] { pretrain(again); }),
              HasSubstr("there is no checkpoint"));
}

TEST(Upcycling, WeightsHaveAFactor) {
  const auto factor = [](const std::string& flags, const std::string& parameter) {
    TrainConfig c = with_flags({},
                               "--num-layers 1 --hidden-size 8 --num-attention-heads 2 "
                               "--num-experts 8 --moe-layer-freq 1 --moe-router-topk 4 "
                               "--moe-ffn-hidden-size 6 --moe-use-upcycling "
                               "--moe-upcycling-granularity 2 " +
                                   flags);
    ParamSpec spec;
    spec.name = "decoder.layers.0.mlp.experts.5." + parameter;
    spec.global_shape = {8, 6};
    return Upcycling(c).part_of(spec)->factor;
  };
  const std::string before = "--moe-router-pre-softmax ";
  EXPECT_DOUBLE_EQ(factor("--activation-func relu", "linear_fc1.weight"), std::sqrt(2.0));
  EXPECT_DOUBLE_EQ(factor("--activation-func squaredrelu", "linear_fc2.weight"), std::cbrt(2.0));
  // E / G copies, G^2 / k.
  EXPECT_DOUBLE_EQ(factor(before + "--activation-func relu", "linear_fc2.weight"), 2.0);
  EXPECT_DOUBLE_EQ(factor(before + "--gated-linear-unit", "linear_fc1.weight"), std::cbrt(4.0));
  EXPECT_DOUBLE_EQ(factor(before, "linear_fc2.bias"), 2.0);
  EXPECT_DOUBLE_EQ(factor("", "linear_fc2.bias"), 1.0);
}

}  // namespace
}  // namespace phalanx
