#include "phalanx/nn/region_entry.h"

#include "phalanx/ops/elementwise.h"

namespace phalanx::nn {

RegionEntry::RegionEntry(const std::optional<Norm>& norm, const TransformerConfig& config)
    : config_(config), norm_(norm) {}

Tensor RegionEntry::forward(Pass& pass, const Tensor& x, const Saved& saved) const {
  if (is_stream()) return x;
  const Tensor rows = pass.scratch_rows(config_.dtype, config_.hidden);
  if (norm_) {
    norm_->forward(pass, pass.region.own(rows), x, saved);
  } else {
    ops::copy(pass.ops, {.destination = pass.region.own(rows), .source = x});
  }
  pass.finish(pass.region.enter(pass.ops, rows));
  return rows;
}

RegionEntry::Entering RegionEntry::enter_again(Pass& pass, const RegionBody& body, const Tensor& x,
                                               const Saved& saved) const {
  if (!body.entry_trains()) return {};
  if (is_stream()) return {.rows = x, .work = {}};
  const Tensor rows = pass.scratch_rows(config_.dtype, config_.hidden);
  if (norm_) {
    norm_->apply(pass, pass.region.own(rows), x, saved);
  } else {
    ops::copy(pass.ops, {.destination = pass.region.own(rows), .source = x});
  }
  return {.rows = rows, .work = pass.region.enter(pass.ops, rows)};
}

void RegionEntry::to_stream(BodyCall& call, const Tensor& dx, const Tensor& dentered,
                            const Tensor& x, const Tensor& residual) const {
  const Tensor own = call.pass.region.own(dentered);
  if (norm_) {
    norm_->backward_input(call.pass, dx, own, x, residual, call.saved);
    return;
  }
  ops::copy(call.pass.ops, {.destination = dx, .source = own});
  if (residual) ops::accumulate(call.pass.ops, {.destination = dx, .source = residual});
}

void RegionEntry::backward_input(BodyCall& call, const RegionBody& body, const Tensor& dx,
                                 const Tensor& x, const Tensor& residual) const {
  Pass& pass = call.pass;
  const WorkspaceScope scope(pass.ops.workspace);
  const Tensor dentered = pass.scratch_rows(config_.dtype, config_.hidden);
  body.entry_input_gradient(call, dentered);
  pass.finish(pass.region.leave(pass.ops, dentered));
  to_stream(call, dx, dentered, x, residual);
}

void RegionEntry::backward_weight(BodyCall& call, const RegionBody& body, const Tensor& x,
                                  const Gradients& gradients) const {
  body.exit_weight_gradient(call, gradients);
  const WorkspaceScope scope(call.pass.ops.workspace);
  const Entering again = enter_again(call.pass, body, x, call.saved);
  call.pass.finish(again.work);
  body.entry_weight_gradient(call, again.rows, gradients);
  if (norm_) norm_->backward_weight(call.pass, call.saved, gradients);
}

void RegionEntry::backward(BodyCall& call, const RegionBody& body, const Tensor& dx,
                           const Tensor& x, const Tensor& residual,
                           const Gradients& gradients) const {
  Pass& pass = call.pass;
  const WorkspaceScope scope(pass.ops.workspace);
  const Entering again = enter_again(pass, body, x, call.saved);
  const Tensor dentered = pass.scratch_rows(config_.dtype, config_.hidden);
  body.entry_input_gradient(call, dentered);
  const Work reducing = pass.region.leave(pass.ops, dentered);
  body.exit_weight_gradient(call, gradients);
  pass.finish(again.work);
  body.entry_weight_gradient(call, again.rows, gradients);
  pass.finish(reducing);
  to_stream(call, dx, dentered, x, residual);
  if (norm_) norm_->backward_weight(pass, call.saved, gradients);
}

}  // namespace phalanx::nn
