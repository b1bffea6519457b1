#include "phalanx/nn/adapters.h"

#include <cmath>

#include "phalanx/ops/dropout.h"
#include "phalanx/ops/elementwise.h"

namespace phalanx::nn {
namespace {

Initialiser initialiser_of_a(const AdapterSettings& settings, std::int64_t in) {
  if (settings.is_gaussian) {
    return {Initialiser::Kind::kNormal, 1.0 / static_cast<double>(settings.rank)};
  }
  return {Initialiser::Kind::kUniform, 1.0 / std::sqrt(static_cast<double>(in))};
}

// What every rank of a tensor-parallel group has whole.
ParamSpec replicated(ParamSpec spec, const TensorParallel& tensor) {
  if (tensor.size > 1) spec.summed_over = kRowAxes.with(Axis::kTensor);
  return spec;
}

ParamSpec spec_of_a(const std::string& name, std::int64_t in, Linear::Cut cut,
                    const TransformerConfig& config) {
  const Shape shape{config.adapters.rank, in};
  const Initialiser initialiser = initialiser_of_a(config.adapters, in);
  if (cut == Linear::Cut::kRow) {
    return column_cut_parameter(name, shape, config.dtype, initialiser, config.tensor.rank,
                                config.tensor.size);
  }
  return replicated(whole_parameter(name, shape, config.dtype, initialiser), config.tensor);
}

ParamSpec spec_of_b(const std::string& name, const Adapters::Part& part, Linear::Cut cut,
                    const TransformerConfig& config) {
  const Shape shape{part.features, config.adapters.rank};
  if (cut == Linear::Cut::kRow) {
    return replicated(whole_parameter(name, shape, config.dtype, {}), config.tensor);
  }
  return row_ranges_parameter(name, shape, config.dtype, {}, part.ranges, config.tensor.size);
}

// The gradient of a factor that is one matrix in its product.
void add_gradient(Pass& pass, const Gradients& gradients, ParamId id, const Tensor& dy,
                  const Tensor& x) {
  ops::linear_weight_gradient(
      pass.ops,
      {.dweight = gradients[id], .dy = dy, .x = x, .accumulate = gradients.is_written(id)});
  gradients.mark_written(id);
}

}  // namespace

Adapters::Adapters(ParamTable& table, std::vector<ParamId>& owned, SavedSlots& slots,
                   const std::string& linear, std::int64_t layer, std::int64_t in, Linear::Cut cut,
                   const std::vector<Part>& parts, const TransformerConfig& config)
    : config_(config), layer_(layer), in_(in) {
  PHALANX_CHECK(cut == Linear::Cut::kColumn || cut == Linear::Cut::kRow,
                "{}: adapters of a linear that is not cut", linear);
  if (cut == Linear::Cut::kRow) {
    in_ = in / config.tensor.size;
    first_input_ = in_ * config.tensor.rank;
  }
  for (const Part& part : parts) {
    if (!config.adapters.has(layer, part.part)) continue;
    const std::string name = linear + ".lora." + std::string(name_of(part.part));
    Adapter adapter{.part = part,
                    .a = table.add(spec_of_a(name + ".A.weight", in, cut, config)),
                    .b = table.add(spec_of_b(name + ".B.weight", part, cut, config)),
                    .trains_a = false,
                    .trains_b = false};
    owned.push_back(adapter.a);
    owned.push_back(adapter.b);
    adapter.trains_a = table.trains(adapter.a);
    adapter.trains_b = table.trains(adapter.b);
    trains_a_ = trains_a_ || adapter.trains_a;
    trains_b_ = trains_b_ || adapter.trains_b;
    out_ = part.outer * part.slots * part.inner;
    adapters_.push_back(adapter);
  }
  if (empty()) return;
  const std::string name = linear.substr(linear.rfind('.') + 1) + " adapters";
  u_ = slots.add_rows(name, config.dtype, width(), Born::kForward,
                      trains_b_ ? LastReader::kWeightGradient : LastReader::kForward);
  du_ = slots.add_rows(name + " gradient", config.dtype, width(), Born::kInputGradient,
                       last_reader_if(trains_a_));
}

std::vector<Adapters::Group> Adapters::groups(const Pass& pass) const {
  if (config_.adapters.dropout == 0.0 || !pass.training) {
    return {{.first = 0, .count = adapters_.size()}};
  }
  std::vector<Group> alone;
  for (std::size_t i = 0; i < adapters_.size(); ++i) alone.push_back({.first = i, .count = 1});
  return alone;
}

std::int64_t Adapters::begin(const Group& group) const {
  return static_cast<std::int64_t>(group.first) * config_.adapters.rank;
}

std::int64_t Adapters::width(const Group& group) const {
  return static_cast<std::int64_t>(group.count) * config_.adapters.rank;
}

bool Adapters::is_one_for_all() const {
  return adapters_.size() == 1 && adapters_[0].part.count == adapters_[0].part.slots;
}

Dropout Adapters::dropout(const Pass& pass, const Group& group) const {
  const auto part = static_cast<std::int64_t>(adapters_[group.first].part.part);
  return {.probability = pass.training ? config_.adapters.dropout : 0.0,
          .key = config_.dropout_key,
          .site = config_.dropout_site(layer_, DropoutPlace::kAdapter, part),
          .first_feature = first_input_};
}

Tensor Adapters::dropped(Pass& pass, const Tensor& x, const Group& group) const {
  const Dropout drop = dropout(pass, group);
  if (drop.probability == 0.0) return x;
  const Tensor result = pass.scratch_rows(config_.dtype, in_);
  // The mask of a forward pass is that of a backward pass.
  ops::dropout_backward(pass.ops, {.dx = result, .dout = x, .dropout = drop, .rows = pass.rows()});
  return result;
}

Tensor Adapters::joined_a(Pass& pass, const Group& group) const {
  if (group.count == 1) return pass.weights[adapters_[group.first].a];
  const std::int64_t rank = config_.adapters.rank;
  const Tensor joined = pass.scratch(config_.dtype, {width(group), in_});
  for (std::size_t i = 0; i < group.count; ++i) {
    ops::copy(pass.ops, {.destination = joined.slice(0, static_cast<std::int64_t>(i) * rank, rank),
                         .source = pass.weights[adapters_[group.first + i].a]});
  }
  return joined;
}

Tensor Adapters::columns(Pass& pass, const Tensor& du, const Group& group) const {
  if (group.count == adapters_.size()) return du;
  const Tensor own = pass.scratch(config_.dtype, {du.shape[0], width(group)});
  ops::copy(pass.ops, {.destination = own, .source = du.slice(1, begin(group), width(group))});
  return own;
}

Tensor Adapters::block(const Tensor& joined, std::size_t adapter) const {
  const Part& part = adapters_[adapter].part;
  const std::int64_t rank = config_.adapters.rank;
  return joined.reshape({part.outer, part.slots, part.inner, width()})
      .slice(1, part.first, part.count)
      .slice(3, static_cast<std::int64_t>(adapter) * rank, rank);
}

Tensor Adapters::as_block(const Tensor& b, std::size_t adapter) const {
  const Part& part = adapters_[adapter].part;
  return b.reshape({part.outer, part.count, part.inner, config_.adapters.rank});
}

Tensor Adapters::joined_b(Pass& pass) const {
  if (is_one_for_all()) return pass.weights[adapters_[0].b];
  const Tensor joined = pass.scratch(config_.dtype, {out_, width()});
  ops::fill(pass.ops, {.x = joined, .value = 0.0});
  for (std::size_t i = 0; i < adapters_.size(); ++i) {
    ops::copy(pass.ops, {.destination = block(joined, i),
                         .source = as_block(pass.weights[adapters_[i].b], i)});
  }
  return joined;
}

void Adapters::enter(Pass& pass, const Tensor& x, const Saved& saved) const {
  if (empty()) return;
  const Tensor u = saved[u_].rows();
  for (const Group& group : groups(pass)) {
    const WorkspaceScope scope(pass.ops.workspace);
    const bool is_all = group.count == adapters_.size();
    const Tensor own = is_all ? u : pass.scratch(config_.dtype, {u.shape[0], width(group)});
    ops::linear_forward(pass.ops, {.y = own,
                                   .x = dropped(pass, x, group).rows(),
                                   .weight = joined_a(pass, group),
                                   .bias = {}});
    if (!is_all) {
      ops::copy(pass.ops, {.destination = u.slice(1, begin(group), width(group)), .source = own});
    }
  }
  ops::scale(pass.ops, {.y = u, .x = u, .factor = config_.adapters.scale});
}

void Adapters::add(Pass& pass, const Tensor& y, const Saved& saved) const {
  if (empty()) return;
  const WorkspaceScope scope(pass.ops.workspace);
  const Tensor added = pass.scratch(config_.dtype, y.rows().shape);
  ops::linear_forward(pass.ops,
                      {.y = added, .x = saved[u_].rows(), .weight = joined_b(pass), .bias = {}});
  ops::accumulate(pass.ops, {.destination = y.rows(), .source = added});
}

void Adapters::backward_input(Pass& pass, const Tensor& dx, const Tensor& dy,
                              const Saved& saved) const {
  if (empty()) return;
  const WorkspaceScope scope(pass.ops.workspace);
  const Tensor du = saved[du_].rows();
  ops::linear_input_gradient(pass.ops, {.dx = du, .dy = dy.rows(), .weight = joined_b(pass)});
  ops::scale(pass.ops, {.y = du, .x = du, .factor = config_.adapters.scale});
  for (const Group& group : groups(pass)) {
    const WorkspaceScope of_group(pass.ops.workspace);
    const Tensor added = pass.scratch_rows(config_.dtype, in_);
    ops::linear_input_gradient(
        pass.ops,
        {.dx = added.rows(), .dy = columns(pass, du, group), .weight = joined_a(pass, group)});
    const Dropout drop = dropout(pass, group);
    if (drop.probability > 0.0) {
      ops::dropout_backward(pass.ops,
                            {.dx = added, .dout = added, .dropout = drop, .rows = pass.rows()});
    }
    ops::accumulate(pass.ops, {.destination = dx.rows(), .source = added.rows()});
  }
}

void Adapters::backward_weight(Pass& pass, const Tensor& dy, const Tensor& x, const Saved& saved,
                               const Gradients& gradients) const {
  if (trains_b_) gradient_of_b(pass, dy, saved, gradients);
  if (!trains_a_) return;
  for (const Group& group : groups(pass)) gradient_of_a(pass, group, x, saved, gradients);
}

void Adapters::gradient_of_b(Pass& pass, const Tensor& dy, const Saved& saved,
                             const Gradients& gradients) const {
  const Tensor u = saved[u_].rows();
  if (is_one_for_all()) return add_gradient(pass, gradients, adapters_[0].b, dy.rows(), u);
  const WorkspaceScope scope(pass.ops.workspace);
  const DType full = full_precision(config_.dtype);
  const Tensor joined = pass.scratch(full, {out_, width()});
  ops::linear_weight_gradient(pass.ops,
                              {.dweight = joined, .dy = dy.rows(), .x = u, .accumulate = false});
  for (std::size_t i = 0; i < adapters_.size(); ++i) {
    if (!adapters_[i].trains_b) continue;
    const WorkspaceScope of_adapter(pass.ops.workspace);
    const Tensor sum = pass.scratch(full, pass.weights[adapters_[i].b].shape);
    ops::copy(pass.ops, {.destination = as_block(sum, i), .source = block(joined, i)});
    gradients.add(pass.ops, {.id = adapters_[i].b}, sum);
  }
}

void Adapters::gradient_of_a(Pass& pass, const Group& group, const Tensor& x, const Saved& saved,
                             const Gradients& gradients) const {
  const WorkspaceScope scope(pass.ops.workspace);
  const Tensor du = columns(pass, saved[du_].rows(), group);
  const Tensor rows = dropped(pass, x, group).rows();
  if (group.count == 1) {
    const Adapter& only = adapters_[group.first];
    if (only.trains_a) add_gradient(pass, gradients, only.a, du, rows);
    return;
  }
  const std::int64_t rank = config_.adapters.rank;
  const Tensor joined = pass.scratch(full_precision(config_.dtype), {width(group), in_});
  ops::linear_weight_gradient(pass.ops,
                              {.dweight = joined, .dy = du, .x = rows, .accumulate = false});
  for (std::size_t i = 0; i < group.count; ++i) {
    const Adapter& adapter = adapters_[group.first + i];
    if (!adapter.trains_a) continue;
    gradients.add(pass.ops, {.id = adapter.a},
                  joined.slice(0, static_cast<std::int64_t>(i) * rank, rank));
  }
}

}  // namespace phalanx::nn
