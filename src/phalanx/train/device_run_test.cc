// Runs on the emulated CUDA device, as the program makes them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "phalanx/train/test_support.h"

namespace phalanx {
namespace {

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

TEST_F(DeviceRuns, SayWhatTheyCannotDo) {
  TrainConfig c = run_on("cuda-emulated", "");
  c.layout.world_size = 2;
  EXPECT_THAT(refusal(c), HasSubstr("--device cuda-emulated: 2 ranks would exchange tensors"));
  c = run_on("cuda-emulated", "", "--bf16 --matmul-precision fp32");
  EXPECT_THAT(refusal(c), HasSubstr("--matmul-precision fp32 is of processors"));
}

}  // namespace
}  // namespace phalanx
