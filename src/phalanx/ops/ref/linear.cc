#include "phalanx/ops/ref/access.h"
#include "phalanx/ops/ref/execute.h"

namespace phalanx::ref {

void execute(RefDevice& device, const ops::LinearForward& op, const Tensor& scratch) {
  const Array x = read(op.x);
  const Array weight = read(op.weight);
  const Array bias = read(op.bias);
  Array y(op.y.shape);
  for (std::int64_t r = 0; r < y.shape[0]; ++r) {
    for (std::int64_t n = 0; n < y.shape[1]; ++n) {
      double sum = 0.0;
      for (std::int64_t k = 0; k < x.shape[1]; ++k) sum += x(r, k) * weight(n, k);
      y(r, n) = op.bias ? sum + bias(n) : sum;
    }
  }
  write(op.y, y);
  if (!op.activation.activated) return;
  execute(device,
          ops::BiasActivationForward{.y = op.activation.activated,
                                     .x = op.y,
                                     .bias = op.activation.bias,
                                     .kind = op.activation.kind},
          scratch);
}

void execute(RefDevice& device, const ops::LinearInputGradient& op, const Tensor& scratch) {
  const Array dy = read(op.dy);
  const Array weight = read(op.weight);
  Array dx(op.dx.shape);
  for (std::int64_t r = 0; r < dx.shape[0]; ++r) {
    for (std::int64_t n = 0; n < dy.shape[1]; ++n) {
      for (std::int64_t k = 0; k < dx.shape[1]; ++k) dx(r, k) += dy(r, n) * weight(n, k);
    }
  }
  write(op.dx, dx);
  if (!op.activation.x) return;
  execute(device,
          ops::BiasActivationBackward{.dx = op.dx,
                                      .dy = op.dx,
                                      .x = op.activation.x,
                                      .bias = op.activation.bias,
                                      .kind = op.activation.kind},
          scratch);
}

void execute(RefDevice& device, const ops::LinearWeightGradient& op, const Tensor& scratch) {
  const Array dy = read(op.dy);
  const Array x = read(op.x);
  Array dweight = op.accumulate ? read(op.dweight) : Array(op.dweight.shape);
  for (std::int64_t r = 0; r < x.shape[0]; ++r) {
    for (std::int64_t n = 0; n < dweight.shape[0]; ++n) {
      for (std::int64_t k = 0; k < dweight.shape[1]; ++k) dweight(n, k) += dy(r, n) * x(r, k);
    }
  }
  write(op.dweight, dweight);
  if (!op.dbias) return;
  execute(device, ops::BiasGradient{.dbias = op.dbias, .dy = op.dy, .accumulate = op.accumulate},
          scratch);
}

void execute(RefDevice& /*device*/, const ops::BiasGradient& op, const Tensor& /*scratch*/) {
  const Array dy = read(op.dy);
  Array dbias = op.accumulate ? read(op.dbias) : Array(op.dbias.shape);
  for (std::int64_t r = 0; r < dy.shape[0]; ++r) {
    for (std::int64_t n = 0; n < dy.shape[1]; ++n) dbias(n) += dy(r, n);
  }
  write(op.dbias, dbias);
}

}  // namespace phalanx::ref
