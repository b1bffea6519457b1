// A language model without attention trained on the emulated device.

#include "language_model.h"

#include <gtest/gtest.h>

#include <string>

namespace phalanx {
namespace {

class CudaLanguageModel : public testing::TestWithParam<LanguageModel> {
 protected:
  Training training() const {
    return [model = GetParam()](TrainingMachine& machine) { return model.train(machine); };
  }
};

TEST_P(CudaLanguageModel, LearnsAsOnTheProcessorInEveryOrder) {
  const TrainingResult device = train_in_all_orders(training());
  const double tolerance = GetParam().storage == DType::kF32 ? 1e-5 : 2e-3;
  expect_processors_losses(training(), device, tolerance);
}

std::string model_name(const testing::TestParamInfo<LanguageModel>& instance) {
  return std::string(instance.param.llama ? "Llama_" : "Gpt_") +
         std::string(name_of(instance.param.storage));
}

INSTANTIATE_TEST_SUITE_P(Models, CudaLanguageModel,
                         testing::Values(LanguageModel{.storage = DType::kF32},
                                         LanguageModel{.storage = DType::kBF16},
                                         LanguageModel{.storage = DType::kF16},
                                         LanguageModel{.storage = DType::kBF16, .llama = true}),
                         model_name);

}  // namespace
}  // namespace phalanx
