// A perceptron trained on the emulated device.

#include "perceptron.h"

#include <gtest/gtest.h>

namespace phalanx {
namespace {

Training training(DType storage, MissingWait missing = MissingWait::kNone) {
  return [=](TrainingMachine& machine) {
    return Perceptron{.storage = storage, .missing = missing}.train(machine);
  };
}

class CudaPerceptron : public testing::TestWithParam<DType> {};

TEST_P(CudaPerceptron, LearnsAsOnTheProcessorInEveryOrder) {
  const TrainingResult device = train_in_all_orders(training(GetParam()));
  const double tolerance = GetParam() == DType::kF32 ? 1e-5 : 2e-3;
  expect_processors_losses(training(GetParam()), GetParam(), device, tolerance);
}

INSTANTIATE_TEST_SUITE_P(Types, CudaPerceptron,
                         testing::Values(DType::kF32, DType::kBF16, DType::kF16),
                         [](const auto& instance) { return std::string(name_of(instance.param)); });

class CudaQueues : public testing::TestWithParam<MissingWait> {};

// The order that shows it: of two queues the one that should have waited runs first.
TEST_P(CudaQueues, AMissingWaitChangesLosses) {
  const TrainingResult right = train_on_device(training(DType::kF32), {});
  const Training wrong = training(DType::kF32, GetParam());
  bool seen = false;
  for (const auto order : {cuda::QueueOrder::kFirst, cuda::QueueOrder::kLast}) {
    seen = seen || !train_on_device(wrong, {order, 0}).same_bits(right);
  }
  EXPECT_TRUE(seen);
}

INSTANTIATE_TEST_SUITE_P(Waits, CudaQueues,
                         testing::Values(MissingWait::kBatchHasArrived, MissingWait::kBatchIsFree,
                                         MissingWait::kLossIsThere, MissingWait::kLossHasLeft),
                         [](const auto& instance) {
                           return std::to_string(static_cast<int>(instance.param));
                         });

}  // namespace
}  // namespace phalanx
