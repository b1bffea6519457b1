// Runs on the emulated CUDA device, as the program makes them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "phalanx/train/test_support.h"

namespace phalanx {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;

class DeviceRuns : public RunTest {
 protected:
  TrainConfig run_on(const std::string& device, const std::string& save,
                     const std::string& flags = {}) const {
    return with_flags(config(save), "--device " + device + " " + flags);
  }
};

// Trained, evaluated, saved and resumed: the processor's losses, and the same bits after a resume.
TEST_F(DeviceRuns, HaveTheProcessorsLosses) {
  struct Precision {
    const char* flags;
    double tolerance;
  };
  for (const Precision& precision :
       {Precision{"", 1e-5}, Precision{"--attention-backend unfused", 1e-5},
        Precision{"--bf16 --normalization RMSNorm --swiglu --position-embedding-type rope "
                  "--untie-embeddings-and-output-weights --disable-bias-linear",
                  2e-3}}) {
    SCOPED_TRACE(precision.flags);
    train(run_on("cpu", "host", precision.flags));
    train(run_on("cuda-emulated", "device", precision.flags));
    expect_near("device", "host", "lm_loss", precision.tolerance);
    const auto learnt = losses("device");
    EXPECT_LT(learnt.back(), learnt.front());
    const Manifest& manifest = CheckpointReader::open(path("device")).manifest();
    EXPECT_EQ(manifest.matmul_precision, "cuda-sm80-lt1");
    std::filesystem::remove_all(path("host"));
    std::filesystem::remove_all(path("device"));
  }
}

TEST_F(DeviceRuns, ResumeBitForBit) {
  expect_resume_is_bitwise(
      run_on("cuda-emulated", "whole", "--fp16 --initial-loss-scale 1024 --loss-scale-window 4"));
}

// Steps that are skipped move neither rates nor Adam's count, and halve the scale: with a constant
// one the host learns of them when the next step has begun.
TEST_F(DeviceRuns, SkipTheProcessorsSteps) {
  for (const std::string scale :
       {"--initial-loss-scale 4194304 --hysteresis 1 --loss-scale-window 2",
        "--loss-scale 1500000"}) {
    SCOPED_TRACE(scale);
    const std::string flags = "--fp16 --eval-iters 0 " + scale;
    train(run_on("cpu", "host", flags));
    train(run_on("cuda-emulated", "device", flags));
    for (const char* of : {"skipped", "loss_scale", "learning_rate"}) {
      EXPECT_EQ(metric("device", of), metric("host", of)) << of;
    }
    expect_near("device", "host", "lm_loss", 2e-3);
    EXPECT_THAT(metric("device", "skipped"), AllOf(Contains(true), Contains(false)));
    std::filesystem::remove_all(path("host"));
    std::filesystem::remove_all(path("device"));
  }
}

// A step that made no number is explained with its own iteration, samples and weights, though the
// passes of the next one have run.
TEST_F(DeviceRuns, ExplainTheProcessorsFailures) {
  const std::string flags =
      "--lr 1e25 --min-lr 1e25 --lr-warmup-iters 0 --clip-grad 0 "
      "--eval-interval 1000";
  const auto failure = [&](const std::string& device, const std::string& save) {
    return error_of(ErrorCode::kDoNotRestart, [&] { pretrain(run_on(device, save, flags)); });
  };
  const std::string on_host = failure("cpu", "host");
  EXPECT_THAT(on_host, HasSubstr("the loss or gradient is not finite"));
  EXPECT_EQ(failure("cuda-emulated", "device"), on_host);
  EXPECT_EQ(metric("device", "iteration"), metric("host", "iteration"));
}

// Other products make other bits.
TEST_F(DeviceRuns, AreResumedWhereTheyWereMade) {
  TrainConfig c = run_on("cuda-emulated", "device");
  c.run.load = c.run.save;
  c.run.exit_interval = 3;
  train(c);
  c.layout.device = "cpu";
  EXPECT_THAT(refusal(c), HasSubstr("this run's products are those of a processor, the checkpoint "
                                    "of iteration 3 was made with cuda-sm80-lt1"));
  c.run.allow_changed = {"matmul-precision"};
  train(c);
}

// From the processor to the device and back, with checkpoints of every kind.
TEST_F(DeviceRuns, GoOnWithTheProcessorsCheckpoints) {
  train(run_on("cpu", "straight"));
  for (const char* flags : {"", "--ckpt-fully-parallel-save", "--async-save --save-interval 1"}) {
    SCOPED_TRACE(flags);
    TrainConfig c = run_on("cpu", "changing", flags);
    c.run.load = c.run.save;
    c.run.exit_interval = 2;
    c.run.allow_changed = {"matmul-precision"};
    train(c);
    c.layout.device = "cuda-emulated";
    train(c);
    EXPECT_EQ(CheckpointReader::open(path("changing")).manifest().matmul_precision,
              "cuda-sm80-lt1");
    c.layout.device = "cpu";
    train(c);
    expect_near("changing", "straight", "lm_loss", 1e-5);
    expect_near("changing", "straight", "grad_norm", 1e-4);
    std::filesystem::remove_all(path("changing"));
  }
}

// Steps are skipped where the processor skips them; with recomputation and ZeRO.
TEST_F(DeviceRuns, SkipWhatTheProcessorSkips) {
  const std::string flags =
      "--fp16 --initial-loss-scale 8388608 --hysteresis 1 --zero-stage 3 "
      "--recompute-granularity full --recompute-method uniform --train-iters 4 --eval-interval 9";
  train(run_on("cpu", "host", flags));
  train(run_on("cuda-emulated", "device", flags));
  EXPECT_EQ(metric("device", "skipped"), metric("host", "skipped"));
  EXPECT_EQ(metric("device", "loss_scale"), metric("host", "loss_scale"));
  EXPECT_THAT(metric("device", "skipped"), AllOf(Contains(true), Contains(false)));
  expect_near("device", "host", "lm_loss", 2e-3);
}

TEST_F(DeviceRuns, FindWhatIsNotFinite) {
  TrainConfig c = run_on("cuda-emulated", "", "--lr 1e25 --min-lr 0 --clip-grad 0 --optimizer sgd");
  const std::string found = error_of<Error>([&] { pretrain(c); });
  EXPECT_THAT(found, HasSubstr("first in layer 0, forward pass of microbatch 0, on rank 0: qkv; "
                               "its inputs and parameters were finite"));
  c.layout.device = "cpu";
  EXPECT_EQ(error_of<Error>([&] { pretrain(c); }), found);
}

TEST_F(DeviceRuns, SayWhatTheyCannotDo) {
  TrainConfig c = run_on("cuda-emulated", "");
  c.layout.world_size = 2;
  EXPECT_THAT(refusal(c), HasSubstr("--device cuda-emulated: 2 ranks would exchange tensors"));
  c = run_on("cuda-emulated", "", "--bf16 --matmul-precision fp32");
  EXPECT_THAT(refusal(c), HasSubstr("--matmul-precision fp32 is of processors"));
}

}  // namespace
}  // namespace phalanx
