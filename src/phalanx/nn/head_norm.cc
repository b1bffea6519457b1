#include "phalanx/nn/head_norm.h"

#include "phalanx/ops/layer_norm.h"
#include "phalanx/ops/rms_norm.h"

namespace phalanx::nn {
namespace {

ParamSpec head_vector(std::string name, const TransformerConfig& config, double value) {
  ParamSpec spec = whole_parameter(std::move(name), {config.head_size}, config.dtype,
                                   {Initialiser::Kind::kConstant, value});
  if (config.tensor.size > 1) spec.reduction = GradientReduction::kSequencePartial;
  return spec;
}

}  // namespace

HeadNorm::HeadNorm(ParamTable& table, std::vector<ParamId>& owned, SavedSlots& slots,
                   const std::string& name, std::int64_t heads_per_group,
                   const TransformerConfig& config)
    : kind_(config.norm),
      zero_centred_(config.norm_zero_centred),
      epsilon_(config.norm_epsilon),
      heads_per_group_(heads_per_group),
      weight_(table.add(head_vector(name + ".weight", config, zero_centred_ ? 0.0 : 1.0))) {
  owned.push_back(weight_);
  const DType full = full_precision(config.dtype);
  const auto add_statistic = [&](const char* what) {
    return slots.add(
        {name + what, full, Born::kForward, LastReader::kInputGradient,
         [heads_per_group, groups = config.local_query_groups()](const BatchShape& batch) {
           return Shape{heads_per_group, batch.rows() * groups};
         }});
  };
  const auto add_sum = [&](const char* what) {
    return slots.add({name + what, full, Born::kInputGradient, LastReader::kWeightGradient,
                      [d = config.head_size](const BatchShape& /*batch*/) { return Shape{d}; }});
  };
  if (kind_ == NormKind::kLayerNorm) {
    bias_ = table.add(head_vector(name + ".bias", config, 0.0));
    owned.push_back(bias_);
    mean_ = add_statistic(".mean");
  }
  rstd_ = add_statistic(".rstd");
  dweight_ = add_sum(".dweight");
  if (kind_ == NormKind::kLayerNorm) dbias_ = add_sum(".dbias");
}

Tensor HeadNorm::heads_at(const Tensor& heads, std::int64_t place) const {
  const Tensor one = heads.shape.rank() == 5 ? heads.select(3, place) : heads;
  const Shape& s = one.shape;
  PHALANX_CHECK(one.strides[1] == s[2] * one.strides[2] && one.strides[0] == s[1] * one.strides[1],
                "the heads {} are not evenly apart", heads.shape.to_string());
  Tensor rows = one;
  rows.shape = {s[0] * s[1] * s[2], s[3]};
  rows.strides = {one.strides[2], one.strides[3]};
  return rows;
}

void HeadNorm::forward(Pass& pass, const Tensor& y, const Tensor& x, const Saved& saved) const {
  for (std::int64_t place = 0; place < heads_per_group_; ++place) {
    if (kind_ == NormKind::kRmsNorm) {
      ops::rms_norm_forward(pass.ops, {.y = heads_at(y, place),
                                       .rstd = saved[rstd_].select(0, place),
                                       .x = heads_at(x, place),
                                       .weight = pass.weights[weight_],
                                       .epsilon = epsilon_,
                                       .zero_centred = zero_centred_});
      continue;
    }
    ops::layer_norm_forward(pass.ops, {.y = heads_at(y, place),
                                       .mean = saved[mean_].select(0, place),
                                       .rstd = saved[rstd_].select(0, place),
                                       .x = heads_at(x, place),
                                       .weight = pass.weights[weight_],
                                       .bias = pass.weights[bias_],
                                       .epsilon = epsilon_,
                                       .zero_centred = zero_centred_});
  }
}

void HeadNorm::apply(Pass& pass, const Tensor& y, const Tensor& x, const Saved& saved) const {
  for (std::int64_t place = 0; place < heads_per_group_; ++place) {
    if (kind_ == NormKind::kRmsNorm) {
      ops::rms_norm_apply(pass.ops, {.y = heads_at(y, place),
                                     .x = heads_at(x, place),
                                     .rstd = saved[rstd_].select(0, place),
                                     .weight = pass.weights[weight_],
                                     .zero_centred = zero_centred_});
      continue;
    }
    ops::layer_norm_apply(pass.ops, {.y = heads_at(y, place),
                                     .x = heads_at(x, place),
                                     .mean = saved[mean_].select(0, place),
                                     .rstd = saved[rstd_].select(0, place),
                                     .weight = pass.weights[weight_],
                                     .bias = pass.weights[bias_],
                                     .zero_centred = zero_centred_});
  }
}

void HeadNorm::backward_input(Pass& pass, const Tensor& dx, const Tensor& dy, const Tensor& x,
                              const Saved& saved) const {
  const WorkspaceScope scope(pass.ops.workspace);
  // The first place's sums are overwritten, the others' are added in order.
  const auto more_of = [&](SavedId id) {
    return id < 0 ? Tensor{} : pass.scratch(saved[id].dtype, saved[id].shape);
  };
  const Tensor more_dweight = more_of(dweight_);
  const Tensor more_dbias = more_of(dbias_);
  for (std::int64_t place = 0; place < heads_per_group_; ++place) {
    const bool first = place == 0;
    const Tensor dweight = first ? saved[dweight_] : more_dweight;
    if (kind_ == NormKind::kRmsNorm) {
      ops::rms_norm_backward(pass.ops, {.dx = heads_at(dx, place),
                                        .dweight = dweight,
                                        .dy = heads_at(dy, place),
                                        .x = heads_at(x, place),
                                        .rstd = saved[rstd_].select(0, place),
                                        .weight = pass.weights[weight_],
                                        .zero_centred = zero_centred_});
    } else {
      ops::layer_norm_backward(pass.ops, {.dx = heads_at(dx, place),
                                          .dweight = dweight,
                                          .dbias = first ? saved[dbias_] : more_dbias,
                                          .dy = heads_at(dy, place),
                                          .x = heads_at(x, place),
                                          .mean = saved[mean_].select(0, place),
                                          .rstd = saved[rstd_].select(0, place),
                                          .weight = pass.weights[weight_],
                                          .zero_centred = zero_centred_});
    }
    if (first) continue;
    ops::accumulate(pass.ops, {.destination = saved[dweight_], .source = more_dweight});
    if (dbias_ >= 0) {
      ops::accumulate(pass.ops, {.destination = saved[dbias_], .source = more_dbias});
    }
  }
}

void HeadNorm::backward_weight(Pass& pass, const Saved& saved, const Gradients& gradients) const {
  const auto add = [&](ParamId id, const Tensor& sum) {
    if (gradients.adds_to(id)) {
      ops::accumulate(pass.ops, {.destination = gradients[id], .source = sum});
    } else {
      ops::copy(pass.ops, {.destination = gradients[id], .source = sum});
    }
  };
  add(weight_, saved[dweight_]);
  if (bias_ >= 0) add(bias_, saved[dbias_]);
}

}  // namespace phalanx::nn
