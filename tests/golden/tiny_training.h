#pragma once
// Training steps of a tiny model on any backend through the real parts: chunk, executor, stores and
// optimizer.

#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/model/model.h"
#include "phalanx/nn/constants.h"
#include "phalanx/optim/optimizer.h"
#include "phalanx/pipeline/executor.h"

namespace phalanx {

// One microbatch on the host: columns of the model's schema by name, row-major [extents..., b].
// Where they are not given, positions count from 0 and rows belong to one document.
using TinyBatch = std::map<std::string, std::vector<double>>;

struct TinyRun {
  const Model& model;
  std::int64_t micro_batch = 1;
  int microbatches = 1;
  // Each microbatch's losses are divided by its own counts (Megatron's mean of means).
  bool mean_of_means = false;
  OptimizerSettings optimizer;
  std::function<bool(const std::string&)> is_frozen = {};  // by name; empty: all are trained
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
  // Sum and count of each loss, in the model's order, over all microbatches.
  struct Loss {
    double sum = 0.0;
    double count = 0.0;
    double mean() const { return sum / count; }
  };
  std::vector<Loss> step(const Settings& settings, std::span<const TinyBatch> batches);
  // Of the last step: the mean over microbatches of a loss that layers add, without coefficient.
  double auxiliary_loss(std::size_t number) const;

  const nn::ParamTable& table() const { return table_; }
  // True elements of the main parameter; of the gradient of the last step's sum of mean losses.
  std::vector<double> parameter(ParamId id) const;
  std::vector<double> gradient(ParamId id) const;
  // Everything that lies in the padding of a parameter: weights, gradient and moments.
  std::vector<double> padding(ParamId id) const;
  double grad_norm() const;

 private:
  const nn::Batch& load(int microbatch) override;
  const nn::Batch& loaded(int microbatch) override;
  void reduce_gradients(int chunk) override;
  std::span<const nn::LossTerm> losses(int /*microbatch*/) override { return terms_; }
  std::span<const nn::AuxiliaryTerm> auxiliary_losses(int /*microbatch*/) override {
    return auxiliary_;
  }
  void optimizer_step(int version) override;
  void gather_parameters() override {}

  DType full_precision() const { return nn::full_precision(run_.model.transformer().dtype); }
  // Whether the step's end divides by the count of the only loss.
  bool is_rescaled() const { return terms_.size() == 1 && !run_.mean_of_means; }
  // Rows of the only loss in a step, masked or not.
  double rows_that_may_count() const;
  void set_factors();
  std::vector<double> default_column(std::string_view name, std::size_t index,
                                     std::int64_t first_sample) const;

  TinyRun run_;
  BatchSchema schema_;
  nn::BatchShapes shapes_;
  Arena memory_, saved_, workspace_;
  Context context_;
  nn::ParamTable table_;
  Chunk chunk_;
  nn::Constants constants_;
  ParameterStore parameters_;
  GradientStore gradients_;
  Optimizer optimizer_;
  Executor executor_;
  nn::Batch batch_;
  std::vector<nn::LossTerm> terms_;
  std::vector<nn::AuxiliaryTerm> auxiliary_;
  Tensor loss_scale_;
  nn::UnitHooks hooks_;
  std::span<const TinyBatch> batches_;
  Settings settings_;
};

}  // namespace phalanx
