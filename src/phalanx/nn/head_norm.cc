#include "phalanx/nn/head_norm.h"

#include "phalanx/ops/layer_norm.h"

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
    : epsilon_(config.norm_epsilon),
      heads_per_group_(heads_per_group),
      head_size_(config.head_size),
      weight_(table.add(head_vector(name + ".weight", config, 1.0))),
      bias_(table.add(head_vector(name + ".bias", config, 0.0))) {
  owned.push_back(weight_);
  owned.push_back(bias_);
  const DType full = full_precision(config.dtype);
  const std::int64_t groups = config.local_query_groups();
  const auto per_head = [groups, heads_per_group](const BatchShape& batch) {
    return Shape{heads_per_group, batch.rows() * groups};
  };
  const auto per_feature = [d = config.head_size](const BatchShape& /*batch*/) { return Shape{d}; };
  mean_ = slots.add({name + ".mean", full, Born::kForward, LastReader::kInputGradient, per_head});
  rstd_ = slots.add({name + ".rstd", full, Born::kForward, LastReader::kInputGradient, per_head});
  dweight_ = slots.add(
      {name + ".dweight", full, Born::kInputGradient, LastReader::kWeightGradient, per_feature});
  dbias_ = slots.add(
      {name + ".dbias", full, Born::kInputGradient, LastReader::kWeightGradient, per_feature});
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
    ops::layer_norm_forward(pass.ops, {.y = heads_at(y, place),
                                       .mean = saved[mean_].select(0, place),
                                       .rstd = saved[rstd_].select(0, place),
                                       .x = heads_at(x, place),
                                       .weight = pass.weights[weight_],
                                       .bias = pass.weights[bias_],
                                       .epsilon = epsilon_});
  }
}

void HeadNorm::apply(Pass& pass, const Tensor& y, const Tensor& x, const Saved& saved) const {
  for (std::int64_t place = 0; place < heads_per_group_; ++place) {
    ops::layer_norm_apply(pass.ops, {.y = heads_at(y, place),
                                     .x = heads_at(x, place),
                                     .mean = saved[mean_].select(0, place),
                                     .rstd = saved[rstd_].select(0, place),
                                     .weight = pass.weights[weight_],
                                     .bias = pass.weights[bias_]});
  }
}

void HeadNorm::backward_input(Pass& pass, const Tensor& dx, const Tensor& dy, const Tensor& x,
                              const Saved& saved) const {
  const WorkspaceScope scope(pass.ops.workspace);
  const Tensor& dweight = saved[dweight_];
  const Tensor& dbias = saved[dbias_];
  // The first place's sums are overwritten, the others' are added in order.
  const Tensor more_dweight = pass.scratch(dweight.dtype, dweight.shape);
  const Tensor more_dbias = pass.scratch(dbias.dtype, dbias.shape);
  for (std::int64_t place = 0; place < heads_per_group_; ++place) {
    const bool first = place == 0;
    ops::layer_norm_backward(pass.ops, {.dx = heads_at(dx, place),
                                        .dweight = first ? dweight : more_dweight,
                                        .dbias = first ? dbias : more_dbias,
                                        .dy = heads_at(dy, place),
                                        .x = heads_at(x, place),
                                        .mean = saved[mean_].select(0, place),
                                        .rstd = saved[rstd_].select(0, place),
                                        .weight = pass.weights[weight_],
                                        .residual = {}});
    if (first) continue;
    ops::accumulate(pass.ops, {.destination = dweight, .source = more_dweight});
    ops::accumulate(pass.ops, {.destination = dbias, .source = more_dbias});
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
  add(bias_, saved[dbias_]);
}

}  // namespace phalanx::nn
