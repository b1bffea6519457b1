#pragma once
// Training steps of a tiny GPT on any backend through the real parts: chunk, executor, stores and
// optimizer.

#include <span>
#include <vector>

#include "phalanx/model/gpt.h"
#include "phalanx/optim/optimizer.h"
#include "phalanx/pipeline/executor.h"

namespace phalanx {

// One microbatch on the host, row-major [s, b].
struct TinyBatch {
  std::vector<std::int32_t> tokens, labels, positions, documents;
  std::vector<double> loss_mask;
};

struct TinyRun {
  GptConfig model;
  nn::BatchShape shape;
  int microbatches = 1;
  OptimizerSettings optimizer;
};

class TinyTraining final : private StepServices {
 public:
  TinyTraining(const TinyRun& run, Backend& backend);
  TinyTraining(const TinyTraining&) = delete;
  TinyTraining& operator=(const TinyTraining&) = delete;

  void initialise();
  // The parameter's true elements, row-major; padding becomes zero.
  void set_parameter(ParamId id, std::span<const double> values);

  struct Settings {
    double lr = 0.0;
    double weight_decay = 0.0;
    std::int64_t adam_step = 1;
  };
  // The loss: mean over the unmasked tokens of all microbatches.
  double step(const Settings& settings, std::span<const TinyBatch> batches);

  const nn::ParamTable& table() const { return table_; }
  // True elements of the main parameter; of the gradient of the last step's mean loss.
  std::vector<double> parameter(ParamId id) const;
  std::vector<double> gradient(ParamId id) const;
  // Everything that lies in the padding of a parameter: weights, gradient and moments.
  std::vector<double> padding(ParamId id) const;
  double grad_norm() const;

 private:
  const nn::Batch& load(int microbatch) override;
  const nn::Batch& loaded(int microbatch) override;
  void reduce_gradients(int chunk) override;
  nn::LossSums losses(int /*microbatch*/) override { return sums_; }
  void optimizer_step(int version) override;
  void gather_parameters() override {}

  TinyRun run_;
  Arena memory_, saved_, workspace_;
  Context context_;
  nn::ParamTable table_;
  Chunk chunk_;
  ParameterStore parameters_;
  GradientStore gradients_;
  Optimizer optimizer_;
  Executor executor_;
  nn::Batch batch_;
  nn::LossSums sums_;
  Tensor loss_scale_;
  nn::UnitHooks hooks_;
  std::span<const TinyBatch> batches_;
  Settings settings_;
};

}  // namespace phalanx
