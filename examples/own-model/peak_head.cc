#include "peak_head.h"

#include "phalanx/ops/cross_entropy.h"

namespace peaks {

using phalanx::Tensor;
using phalanx::WorkspaceScope;
namespace nn = phalanx::nn;
namespace ops = phalanx::ops;

namespace {

constexpr std::int64_t kClasses = 2;

}  // namespace

PeakHead::PeakHead(nn::ParamTable& table, std::size_t labels, std::size_t mask,
                   const nn::TransformerConfig& config)
    : Unit("peak head"),
      config_(config),
      labels_(labels),
      mask_(mask),
      norm_(table, parameters_, slots_, "final_layernorm", config),
      classes_(table, parameters_, "peak_head", kClasses, config.hidden, config,
               config.init_deviation, nn::Linear::Cut::kWhole, nn::Linear::Bias::kInProduct),
      dlogits_(slots_.add_rows("logit gradient", nn::full_precision(config.dtype), kClasses,
                               nn::Born::kForward, nn::LastReader::kWeightGradient)) {
  inputs_ = {{"hidden states", config.stream_dtype(), config.hidden}};
}

Tensor PeakHead::normed_rows(nn::Pass& pass) const {
  return pass.scratch_stream(config_.dtype, config_.hidden);
}

// Forward knows what backward starts from, and leaves the gradient of the logits in their place.
void PeakHead::forward(nn::Pass& pass, Tensors inputs, Tensors /*outputs*/,
                       const nn::Saved& saved) const {
  const WorkspaceScope scope(pass.ops.workspace);
  const Tensor normed = normed_rows(pass);
  norm_.forward(pass, normed, inputs[0], saved);
  const Tensor logits = saved[dlogits_];
  classes_.forward(pass, logits, normed);
  const std::int64_t rows = pass.shape.rows();
  const phalanx::DType full = nn::full_precision(config_.dtype);
  const Tensor mask = pass.batch[mask_].reshape({rows});
  const Tensor loss = pass.scratch(full, {rows});
  const Tensor seed = pass.scratch(full, {1});
  const nn::LossTerm& term = pass.losses[0];
  if (pass.training) {
    ops::loss_seed(pass.ops, {.seed = seed,
                              .loss_scale = pass.loss_settings.loss_scale,
                              .mask = pass.loss_settings.mean_of_microbatch ? mask : Tensor{},
                              .factor = term.factor});
  }
  ops::cross_entropy(pass.ops, {.loss = loss,
                                .dlogits = pass.training ? logits.rows() : Tensor{},
                                .logits = logits.rows(),
                                .targets = pass.batch[labels_].reshape({rows}),
                                .mask = mask,
                                .seed = seed,
                                .vocabulary = kClasses});
  ops::loss_accumulate(pass.ops,
                       {.sum = term.sum, .count = term.count, .loss = loss, .mask = mask});
}

void PeakHead::backward_input(nn::Pass& pass, Tensors inputs, Tensors /*output_gradients*/,
                              Tensors input_gradients, const nn::Saved& saved) const {
  const WorkspaceScope scope(pass.ops.workspace);
  const Tensor dnormed = normed_rows(pass);
  classes_.backward_input(pass, dnormed, saved[dlogits_]);
  norm_.backward_input(pass, input_gradients[0], dnormed, inputs[0], {}, saved);
}

// The norm's output is not saved: it is asked for again.
void PeakHead::backward_weight(nn::Pass& pass, Tensors inputs, const nn::Saved& saved,
                               const nn::Gradients& gradients) const {
  const WorkspaceScope scope(pass.ops.workspace);
  const Tensor normed = normed_rows(pass);
  norm_.apply(pass, normed, inputs[0], saved);
  classes_.backward_weight(pass, saved[dlogits_], normed, gradients);
  norm_.backward_weight(pass, saved, gradients);
}

}  // namespace peaks
