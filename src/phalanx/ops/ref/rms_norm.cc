#include <cmath>

#include "phalanx/ops/ref/access.h"
#include "phalanx/ops/ref/execute.h"

namespace phalanx::ref {
namespace {

Array normalise(const Array& x, const Array& rstd, const Array& weight) {
  Array y(x.shape);
  for (std::int64_t r = 0; r < x.shape[0]; ++r) {
    for (std::int64_t i = 0; i < x.shape[1]; ++i) y(r, i) = x(r, i) * rstd(r) * weight(i);
  }
  return y;
}

}  // namespace

void execute(RefDevice& /*device*/, const ops::RmsNormForward& op, const Tensor& /*scratch*/) {
  const Array x = read(op.x);
  Array rstd(op.rstd.shape);
  for (std::int64_t r = 0; r < x.shape[0]; ++r) {
    double squares = 0.0;
    for (std::int64_t i = 0; i < x.shape[1]; ++i) squares += x(r, i) * x(r, i);
    const double mean = squares / static_cast<double>(x.shape[1]);
    // As stored: RmsNormApply computes the output again from it.
    rstd(r) = round_to(op.rstd.dtype, 1.0 / std::sqrt(mean + op.epsilon));
  }
  write(op.y, normalise(x, rstd, read_norm_weight(op.weight, op.zero_centred)));
  write(op.rstd, rstd);
}

void execute(RefDevice& /*device*/, const ops::RmsNormApply& op, const Tensor& /*scratch*/) {
  write(op.y, normalise(read(op.x), read(op.rstd), read_norm_weight(op.weight, op.zero_centred)));
}

void execute(RefDevice& /*device*/, const ops::RmsNormBackward& op, const Tensor& /*scratch*/) {
  const Array dy = read(op.dy);
  const Array x = read(op.x);
  const Array rstd = read(op.rstd);
  const Array weight = read_norm_weight(op.weight, op.zero_centred);
  const Array residual = read(op.residual);
  const std::int64_t columns = x.shape[1];
  Array dx(x.shape);
  Array dweight(op.dweight.shape);
  for (std::int64_t r = 0; r < x.shape[0]; ++r) {
    double product = 0.0;  // of the row and the gradient of what the weight multiplies
    for (std::int64_t i = 0; i < columns; ++i) {
      dweight(i) += dy(r, i) * x(r, i) * rstd(r);
      product += dy(r, i) * weight(i) * x(r, i);
    }
    const double slope = rstd(r) * rstd(r) * rstd(r) * product / static_cast<double>(columns);
    for (std::int64_t i = 0; i < columns; ++i) {
      const double gradient = rstd(r) * dy(r, i) * weight(i) - x(r, i) * slope;
      dx(r, i) = round_to(op.dx.dtype, gradient);
      if (op.residual) dx(r, i) += residual(r, i);
    }
  }
  write(op.dx, dx);
  write(op.dweight, dweight);
}

}  // namespace phalanx::ref
