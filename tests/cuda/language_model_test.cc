// Language models trained on the emulated device.

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
  const bool is_f32 = GetParam().storage == DType::kF32;
  const TrainingResult device =
      train_in_all_orders(training(), is_f32 ? Seeds::kThree : Seeds::kOne);
  const double tolerance = is_f32 ? 1e-5 : 2e-3;
  expect_processors_losses(training(), GetParam().storage, device, tolerance);
}

std::string model_name(const testing::TestParamInfo<LanguageModel>& instance) {
  return std::string(instance.param.llama ? "Llama_" : "Gpt_") +
         (instance.param.attention ? "attention_" : "") +
         std::string(name_of(instance.param.storage));
}

INSTANTIATE_TEST_SUITE_P(Models, CudaLanguageModel,
                         testing::Values(LanguageModel{.storage = DType::kF32},
                                         LanguageModel{.storage = DType::kBF16},
                                         LanguageModel{.storage = DType::kF16},
                                         LanguageModel{.storage = DType::kBF16, .llama = true},
                                         LanguageModel{.storage = DType::kBF16, .attention = true}),
                         model_name);

}  // namespace
}  // namespace phalanx
