#include "phalanx/planner/step_calibration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "phalanx/base/error.h"
#include "phalanx/base/file.h"
#include "phalanx/base/test_support.h"
#include "phalanx/planner/step_time.h"
#include "phalanx/planner/test_support.h"

namespace phalanx {
namespace {

using testing::HasSubstr;

RunPlan plan_of(const std::string& layout) {
  TrainConfig config = with_flags(
      {},
      "--num-layers 4 --hidden-size 512 --num-attention-heads 8 --seq-length 128 "
      "--max-position-embeddings 128 --bf16 --micro-batch-size 1 --global-batch-size 16 " +
          layout);
  resolve(config, false);
  return plan_run(config, 1000, {cpu::ProductPrecision::kFp32});
}

TEST(StepCalibration, ThePredictionIsWhatWasMeasured) {
  for (const std::string layout :
       {"--world-size 1",
        "--world-size 8 --tensor-model-parallel-size 2 "
        "--pipeline-model-parallel-size 2 --use-distributed-optimizer"}) {
    const RunPlan plan = plan_of(layout);
    const Machine machine = machine_of("h100");
    const double predicted = predict_step(plan, machine).seconds;
    for (const double ratio : {0.9, 1.0, 1.3, 300.0}) {
      const CalibratedDevice found = calibrated_device(plan, machine, ratio * predicted, "a run");
      EXPECT_NEAR(predict_step(plan, machine.with(found.device)).seconds, ratio * predicted,
                  1e-6 * ratio * predicted)
          << layout << ratio;
      EXPECT_THAT(found.device.e_bw.source, HasSubstr("a run, times of h100 x "));
    }
  }
}

TEST(StepCalibration, AFileOfADeviceAloneIsReadBackTheSame) {
  const TemporaryDirectory directory;
  const std::string before = (directory.path() / "device.yaml").string();
  write_file_durably(before, yaml_of(shipped_device("a100-80")));
  const Machine machine = machine_of(before);
  EXPECT_TRUE(machine.is_device_alone);
  // Fast enough that the memory's rate, and with it the assumed link, grows.
  const RunPlan plan = plan_of("--world-size 2");
  const double measured = 0.5 * predict_step(plan, machine).seconds;
  const std::string after = (directory.path() / "measured.yaml").string();
  write_file_durably(after, yaml_of(calibrated_device(plan, machine, measured, "a run").device));
  EXPECT_NEAR(predict_step(plan, machine_of(after)).seconds, measured, 1e-6 * measured);
}

TEST(StepCalibration, WhereMessagesAloneTakeLongerThereIsNoFactor) {
  const RunPlan plan = plan_of("--world-size 2 --tensor-model-parallel-size 2");
  EXPECT_THAT(
      error_of<ConfigError>([&] { calibrated_device(plan, machine_of("h100"), 1e-7, "a run"); }),
      HasSubstr("messages alone decide"));
}

}  // namespace
}  // namespace phalanx
