#pragma once
// Adam over all parameters of a rank: norm, clipping and update without asking the host. Two
// numbers come back when the step is read: the gradient norm and whether the step was skipped.

#include "phalanx/data_parallel/parameter_store.h"

namespace phalanx {

struct AdamSettings {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double clip_grad = 1.0;  // 0: no clipping
};

// What one step needs beyond the gradients.
struct StepInputs {
  double lr = 0.0;
  double weight_decay = 0.0;
  std::int64_t step = 1;  // successful steps so far + 1
  Tensor tokens;  // [1] f64, unmasked tokens of the global batch; absent: gradients are averages
                  // already
  double expected_tokens = 1.0;  // global batch * sequence
  Tensor loss_scale;             // [1]
};

class AdamOptimizer {
 public:
  // Moments go to `states`, the one-element tensors to `scalars`.
  AdamOptimizer(const ParameterStore& parameters, const GradientStore& gradients,
                const AdamSettings& settings, Arena& states, Arena& scalars);

  // Zero moments.
  void initialise(Context& context) const;
  void step(Context& context, const StepInputs& inputs) const;

  const Tensor& exp_avg(ParamId id) const { return exp_avgs_[static_cast<std::size_t>(id)]; }
  const Tensor& exp_avg_sq(ParamId id) const { return exp_avg_sqs_[static_cast<std::size_t>(id)]; }
  const Tensor& norm() const { return norm_; }  // [1], of the averaged, unscaled gradient
  const Tensor& skip() const { return skip_; }  // [1], 1 where the norm was not finite

 private:
  const ParameterStore* parameters_;
  const GradientStore* gradients_;
  AdamSettings settings_;
  std::vector<Tensor> exp_avgs_, exp_avg_sqs_;
  Tensor square_sums_, norm_, factor_, skip_;
};

}  // namespace phalanx
