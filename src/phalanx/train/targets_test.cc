// The bits of a run do not depend on the number of threads nor, in fp32, on the vector width: whole
// runs with several numbers of threads and on every target of this processor.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/checkpoint/digest.h"
#include "phalanx/ops/cpu/precision.h"
#include "phalanx/ops/cpu/target.h"
#include "phalanx/train/test_support.h"

namespace phalanx {
namespace {

using cpu::ForcedTarget;
using cpu::Target;

class TargetsTest : public RunTest {
 protected:
  // Products with sums longer than a block of k and with more tasks than five threads; two
  // microbatches, dropout, attention of several blocks.
  TrainConfig training(const std::string& save) const {
    return with_flags(config(save),
                      "--num-layers 1 --hidden-size 128 --max-position-embeddings 128 "
                      "--seq-length 128 --micro-batch-size 4 --global-batch-size 8 "
                      "--train-iters 5 --lr 1e-3 --min-lr 1e-4 --eval-iters 0");
  }

  // Digests of all tensors of the checkpoint: weights, main parameters and moments.
  using Digests = std::map<std::string, std::uint64_t>;
  Digests digests() const {
    Digests result;
    for (const auto& entry : digest_checkpoint(CheckpointReader::open(path("run"))).tensors) {
      result[entry.name] = entry.xxh3;
    }
    return result;
  }

  Digests digests_after(TrainConfig c, Target target, int threads) const {
    const ForcedTarget forced(target);
    c.layout.threads_per_rank = threads;
    train(c);
    return digests();
  }

  static std::string differences(const Digests& a, const Digests& b) {
    std::string names;
    for (const auto& [name, digest] : a) {
      if (!b.contains(name) || b.at(name) != digest) names += ' ' + name;
    }
    return names;
  }

  // The last target under all numbers of threads, and each of the others, give the bits of the
  // first with one thread.
  static void expect_equal(const Digests& digests, const Digests& expected, Target target,
                           int threads) {
    EXPECT_EQ(differences(expected, digests), "")
        << cpu::name_of(target) << ", " << threads << " threads";
  }
  void expect_one_result(const TrainConfig& c, const std::vector<Target>& targets) const {
    const Digests expected = digests_after(c, targets.front(), 1);
    for (const int threads : {1, 2, 3, 5}) {
      expect_equal(digests_after(c, targets.back(), threads), expected, targets.back(), threads);
    }
    for (const Target target : targets) {
      if (target == targets.back()) continue;
      expect_equal(digests_after(c, target, 3), expected, target, 3);
    }
  }

  // The targets with equal bits in fp32; the scalar one may differ.
  static std::vector<Target> vector_targets() {
    std::vector<Target> targets = cpu::targets_here();
    std::erase(targets, Target::kScalar);
    return targets;
  }
};

TEST_F(TargetsTest, Fp32) {
  if (vector_targets().empty()) GTEST_SKIP() << "no AVX2";
  expect_one_result(training("run"), vector_targets());
}

TEST_F(TargetsTest, UnfusedFp32) {
  if (vector_targets().empty()) GTEST_SKIP() << "no AVX2";
  expect_one_result(with_flags(training("run"), "--attention-backend unfused"), vector_targets());
}

TEST_F(TargetsTest, Bf16StorageMultipliedInFp32) {
  if (vector_targets().empty()) GTEST_SKIP() << "no AVX2";
  expect_one_result(with_flags(training("run"), "--bf16 --matmul-precision fp32"),
                    vector_targets());
}

TEST_F(TargetsTest, Fp16StorageMultipliedInFp32) {
  if (vector_targets().empty()) GTEST_SKIP() << "no AVX2";
  expect_one_result(with_flags(training("run"), "--fp16 --initial-loss-scale 65536"),
                    vector_targets());
}

TEST_F(TargetsTest, ScalarUnderThreads) {
  expect_one_result(with_flags(training("run"), "--train-iters 3"), {Target::kScalar});
}

// A family of products has its own bits, which do not depend on target or threads.
TEST_F(TargetsTest, Bf16Products) {
  if (!cpu::has_products(cpu::ProductPrecision::kBf16)) GTEST_SKIP() << "no bf16 dot products";
  TrainConfig c = with_flags(training("run"), "--bf16 --matmul-precision bf16");
  std::vector<Target> targets = cpu::targets_here();
  std::erase_if(targets, [](Target target) { return target < Target::kAvx512Bf16; });
  expect_one_result(c, targets);
}

TEST_F(TargetsTest, AmxProducts) {
  if (!cpu::has_products(cpu::ProductPrecision::kAmx)) GTEST_SKIP() << "no AMX";
  expect_one_result(with_flags(training("run"), "--bf16 --matmul-precision amx2"), {Target::kAmx});
}

// Tensor-parallel ranks, each with its team.
TEST_F(TargetsTest, TensorParallelRanks) {
  if (vector_targets().empty()) GTEST_SKIP() << "no AVX2";
  const TrainConfig c = with_layout(training("run"), {.tensor = 2});
  expect_one_result(c, {vector_targets().front(), vector_targets().back()});
}

// A run that moves to another machine and another number of threads.
TEST_F(TargetsTest, ResumedElsewhere) {
  if (vector_targets().size() < 2) GTEST_SKIP() << "one target";
  const Target narrow = vector_targets().front(), wide = vector_targets().back();
  const Digests straight = digests_after(training("run"), wide, 2);
  TrainConfig c = training("run");
  c.run.load = c.run.save;
  std::filesystem::remove_all(c.run.save);
  c.run.exit_interval = 2;
  digests_after(c, narrow, 1);
  digests_after(c, wide, 3);
  c.run.exit_interval = 0;
  expect_equal(digests_after(c, narrow, 5), straight, narrow, 5);
}

// A run keeps the checkpoint's family of products, or is refused where it is not available.
TEST_F(TargetsTest, ARunKeepsItsProducts) {
  if (!cpu::has_products(cpu::ProductPrecision::kBf16)) GTEST_SKIP() << "no bf16 dot products";
  TrainConfig c = with_flags(training("run"),
                             "--bf16 --matmul-precision bf16 --train-iters 6 --exit-interval 2");
  train(c);
  c.run.load = c.run.save;
  c.model.matmul_precision = "fp32";
  EXPECT_THROW(pretrain(c), ConfigError);
  c.model.matmul_precision = "auto";
  {
    const ForcedTarget forced(Target::kAvx512);
    EXPECT_THROW(pretrain(c), ConfigError);
  }
  train(c);
  const auto recorded = [&] {
    return CheckpointReader::open(path("run")).manifest().matmul_precision;
  };
  EXPECT_EQ(recorded(), "bf16");
  c.run.allow_changed = {"matmul_precision"};
  const ForcedTarget forced(Target::kAvx2);
  train(c);
  EXPECT_EQ(recorded(), "fp32");
}

}  // namespace
}  // namespace phalanx
