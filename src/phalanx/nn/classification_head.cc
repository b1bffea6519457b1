#include "phalanx/nn/classification_head.h"

#include "phalanx/ops/cross_entropy.h"
#include "phalanx/ops/dropout.h"
#include "phalanx/ops/elementwise.h"

namespace phalanx::nn {
namespace {

// Where dropout is, behind all layers; its place is the embedding's.
constexpr std::int64_t kPoolerLayer = kEmbeddingLayer - 1;

// Of the first row of each sample: [1, b].
RowCoordinates first_rows(const Pass& pass) {
  const RowCoordinates& rows = pass.rows();
  return {.sample = rows.sample.slice(0, 0, 1),
          .position = rows.position.slice(0, 0, 1),
          .document = rows.document.slice(0, 0, 1)};
}

}  // namespace

ClassificationHead::ClassificationHead(ParamTable& table, const ClassificationHeadOptions& options,
                                       const TransformerConfig& config)
    : Unit("head", config.sequence),
      config_(config),
      options_(options),
      norm_(bert_final_norm(table, parameters_, slots_, config)),
      pooler_(table, parameters_, slots_, config),
      classes_(table, parameters_, "classification_head", options.classes, config.hidden, config,
               config.init_deviation, Linear::Cut::kWhole, Linear::Bias::kInProduct) {
  inputs_ = {{"hidden states", config.stream_dtype(), config.hidden}};
  const std::int64_t classes = options.classes;
  logits_ = slots_.add({"class logits", full_precision(config.dtype), Born::kForward,
                        LastReader::kForward, [classes](const BatchShape& batch) {
                          return Shape{batch.micro_batch, classes};
                        }});
  dlogits_ = slots_.add({"class logit gradient", config.dtype, Born::kForward,
                         LastReader::kWeightGradient, [classes](const BatchShape& batch) {
                           return Shape{batch.micro_batch, classes};
                         }});
}

void ClassificationHead::drop(Pass& pass, const Tensor& out, const Tensor& in) const {
  const std::int64_t samples = pass.shape.micro_batch;
  const Shape row{1, samples, config_.hidden};
  ops::dropout_backward(pass.ops, {.dx = out.reshape(row),
                                   .dout = in.reshape(row),
                                   .dropout = config_.hidden_dropout_at(
                                       kPoolerLayer, DropoutPlace::kEmbedding, pass.training),
                                   .rows = first_rows(pass)});
}

void ClassificationHead::class_logits(Pass& pass, const Tensor& logits, const Tensor& x,
                                      const Saved& saved) const {
  const WorkspaceScope scope(pass.ops.workspace);
  Tensor hidden = x;
  if (norm_) {
    hidden = pass.scratch_stream(config_.dtype, config_.hidden);
    norm_->forward(pass, hidden, x, saved);
  }
  pooler_.forward(pass, hidden, saved);
  const Tensor pooled = pass.scratch(config_.dtype, {pass.shape.micro_batch, config_.hidden});
  drop(pass, pooled, pooler_.pooled(saved));
  classes_.forward(pass, logits, pooled);
}

void ClassificationHead::infer(InferencePass& pass, Tensors inputs, Tensors /*outputs*/,
                               const Saved& saved) const {
  class_logits(pass.pass, pass.logits, inputs[0], saved);
}

void ClassificationHead::forward(Pass& pass, Tensors inputs, Tensors /*outputs*/,
                                 const Saved& saved) const {
  const WorkspaceScope scope(pass.ops.workspace);
  const std::int64_t samples = pass.shape.micro_batch;
  const Tensor labels = pass.batch[options_.labels].reshape({samples});
  const Tensor mask = pass.batch[options_.loss_mask].reshape({samples});
  const Tensor& logits = saved[logits_];
  class_logits(pass, logits, inputs[0], saved);
  class_losses(pass, pass.losses[0], logits, labels, mask, saved[dlogits_]);
}

void ClassificationHead::backward_input(Pass& pass, Tensors inputs, Tensors /*output_gradients*/,
                                        Tensors input_gradients, const Saved& saved) const {
  const WorkspaceScope scope(pass.ops.workspace);
  const Tensor dx = input_gradients[0];
  const Tensor dpooled = pass.scratch(config_.dtype, {pass.shape.micro_batch, config_.hidden});
  classes_.backward_input(pass, dpooled, saved[dlogits_]);
  drop(pass, dpooled, dpooled);
  const Tensor dhidden = norm_ ? pass.scratch_stream(config_.dtype, config_.hidden) : dx;
  // Only the first row of each sample is read behind the norm.
  ops::fill(pass.ops, {.x = dhidden, .value = 0.0});
  pooler_.backward_input(pass, dhidden, dpooled, saved);
  if (norm_) norm_->backward_input(pass, dx, dhidden, inputs[0], {}, saved);
}

void ClassificationHead::backward_weight(Pass& pass, Tensors /*inputs*/, const Saved& saved,
                                         const Gradients& gradients) const {
  const WorkspaceScope scope(pass.ops.workspace);
  const Tensor pooled = pass.scratch(config_.dtype, {pass.shape.micro_batch, config_.hidden});
  drop(pass, pooled, pooler_.pooled(saved));
  classes_.backward_weight(pass, saved[dlogits_], pooled, gradients);
  pooler_.backward_weight(pass, saved, gradients);
  if (norm_) norm_->backward_weight(pass, saved, gradients);
}

}  // namespace phalanx::nn
