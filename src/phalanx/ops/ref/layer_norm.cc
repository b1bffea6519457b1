#include <cmath>

#include "phalanx/ops/ref/access.h"
#include "phalanx/ops/ref/execute.h"

namespace phalanx::ref {
namespace {

Array normalise(const Array& x, const Array& mean, const Array& rstd, const Array& weight,
                const Array& bias) {
  Array y(x.shape);
  for (std::int64_t r = 0; r < x.shape[0]; ++r) {
    for (std::int64_t i = 0; i < x.shape[1]; ++i) {
      y(r, i) = (x(r, i) - mean(r)) * rstd(r) * weight(i) + bias(i);
    }
  }
  return y;
}

}  // namespace

void execute(RefDevice& /*device*/, const ops::LayerNormForward& op, const Tensor& /*scratch*/) {
  const Array x = read(op.x);
  const auto columns = static_cast<double>(x.shape[1]);
  Array mean(op.mean.shape);
  Array rstd(op.rstd.shape);
  for (std::int64_t r = 0; r < x.shape[0]; ++r) {
    double sum = 0.0;
    for (std::int64_t i = 0; i < x.shape[1]; ++i) sum += x(r, i);
    const double average = sum / columns;
    double squares = 0.0;
    for (std::int64_t i = 0; i < x.shape[1]; ++i) {
      squares += (x(r, i) - average) * (x(r, i) - average);
    }
    // The output is that of the statistics as stored, for LayerNormApply computes it again from
    // them.
    mean(r) = round_to(op.mean.dtype, average);
    rstd(r) = round_to(op.rstd.dtype, 1.0 / std::sqrt(squares / columns + op.epsilon));
  }
  write(op.y,
        normalise(x, mean, rstd, read_norm_weight(op.weight, op.zero_centred), read(op.bias)));
  write(op.mean, mean);
  write(op.rstd, rstd);
}

void execute(RefDevice& /*device*/, const ops::LayerNormApply& op, const Tensor& /*scratch*/) {
  write(op.y, normalise(read(op.x), read(op.mean), read(op.rstd),
                        read_norm_weight(op.weight, op.zero_centred), read(op.bias)));
}

void execute(RefDevice& /*device*/, const ops::LayerNormBackward& op, const Tensor& /*scratch*/) {
  const Array dy = read(op.dy);
  const Array x = read(op.x);
  const Array mean = read(op.mean);
  const Array rstd = read(op.rstd);
  const Array weight = read_norm_weight(op.weight, op.zero_centred);
  const Array residual = read(op.residual);
  const std::int64_t columns = x.shape[1];
  Array dx(x.shape);
  Array dweight(op.dweight.shape);
  Array dbias(op.dbias.shape);
  for (std::int64_t r = 0; r < x.shape[0]; ++r) {
    const auto normalised = [&](std::int64_t i) { return (x(r, i) - mean(r)) * rstd(r); };
    double sum = 0.0;             // of the gradient of the normalised row
    double sum_normalised = 0.0;  // of its product with the row
    for (std::int64_t i = 0; i < columns; ++i) {
      dweight(i) += dy(r, i) * normalised(i);
      dbias(i) += dy(r, i);
      sum += dy(r, i) * weight(i);
      sum_normalised += dy(r, i) * weight(i) * normalised(i);
    }
    for (std::int64_t i = 0; i < columns; ++i) {
      const double centred = dy(r, i) * weight(i) -
                             (sum + normalised(i) * sum_normalised) / static_cast<double>(columns);
      dx(r, i) = round_to(op.dx.dtype, rstd(r) * centred);
      if (op.residual) dx(r, i) += residual(r, i);
    }
  }
  write(op.dx, dx);
  write(op.dweight, dweight);
  write(op.dbias, dbias);
}

}  // namespace phalanx::ref
