#include <cmath>

#include "phalanx/ops/ref/access.h"
#include "phalanx/ops/ref/execute.h"

namespace phalanx::ref {
namespace {

// The mean of every row; 0 for an RMS norm.
Array means_of(const Tensor& mean, std::int64_t rows) { return mean ? read(mean) : Array({rows}); }

template <typename Op>
void write_normalised(const Op& op, const Array& x, const Array& mean, const Array& rstd) {
  const Array weight = read_norm_weight(op.weight, op.zero_centred);
  const Array bias = read(op.bias);
  Array y(x.shape);
  for (std::int64_t r = 0; r < x.shape[0]; ++r) {
    for (std::int64_t i = 0; i < x.shape[1]; ++i) {
      y(r, i) = (x(r, i) - mean(r)) * rstd(r) * weight(i);
      if (op.mean) y(r, i) += bias(i);
    }
  }
  write(op.y, y);
}

void forward(const ops::NormForward& op) {
  const Array x = read(op.x);
  const auto columns = static_cast<double>(x.shape[1]);
  Array mean(op.rstd.shape);
  Array rstd(op.rstd.shape);
  for (std::int64_t r = 0; r < x.shape[0]; ++r) {
    double average = 0.0;
    if (op.mean) {
      for (std::int64_t i = 0; i < x.shape[1]; ++i) average += x(r, i);
      average /= columns;
    }
    double squares = 0.0;
    for (std::int64_t i = 0; i < x.shape[1]; ++i) {
      squares += (x(r, i) - average) * (x(r, i) - average);
    }
    // The output uses the stored, rounded statistics, because NormApply does.
    mean(r) = round_to(op.rstd.dtype, average);
    rstd(r) = round_to(op.rstd.dtype, 1.0 / std::sqrt(squares / columns + op.epsilon));
  }
  write_normalised(op, x, mean, rstd);
  if (op.mean) write(op.mean, mean);
  write(op.rstd, rstd);
}

void apply(const ops::NormApply& op) {
  write_normalised(op, read(op.x), means_of(op.mean, op.x.shape[0]), read(op.rstd));
}

void backward(const ops::NormBackward& op, bool adds) {
  const Array dy = read(op.dy);
  const Array x = read(op.x);
  const Array mean = means_of(op.mean, x.shape[0]);
  const Array rstd = read(op.rstd);
  const Array weight = read_norm_weight(op.weight, op.zero_centred);
  const Array residual = read(op.residual);
  const std::int64_t columns = x.shape[1];
  Array dx(x.shape);
  Array dweight({columns});
  Array dbias({columns});
  for (std::int64_t r = 0; r < x.shape[0]; ++r) {
    const auto normalised = [&](std::int64_t i) { return (x(r, i) - mean(r)) * rstd(r); };
    double sum = 0.0;             // of the gradient of the normalised row
    double sum_normalised = 0.0;  // of its product with the row
    for (std::int64_t i = 0; i < columns; ++i) {
      dweight(i) += dy(r, i) * normalised(i);
      dbias(i) += dy(r, i);
      if (op.mean) sum += dy(r, i) * weight(i);
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
  const auto write_sums = [&](const Tensor& to, Array& sums) {
    const Array before = adds ? read(to) : Array({columns});
    for (std::int64_t i = 0; i < columns; ++i) sums(i) += before(i);
    write(to, sums);
  };
  write_sums(op.dweight, dweight);
  if (op.mean) write_sums(op.dbias, dbias);
}

}  // namespace

void execute(RefDevice& /*device*/, const ops::NormForward& op, const Tensor& /*scratch*/) {
  for (std::int64_t place = 0; place < ops::places_of(op); ++place) {
    forward(ops::at_place(op, place));
  }
}

void execute(RefDevice& /*device*/, const ops::NormApply& op, const Tensor& /*scratch*/) {
  for (std::int64_t place = 0; place < ops::places_of(op); ++place) {
    apply(ops::at_place(op, place));
  }
}

void execute(RefDevice& /*device*/, const ops::NormBackward& op, const Tensor& /*scratch*/) {
  for (std::int64_t place = 0; place < ops::places_of(op); ++place) {
    backward(ops::at_place(op, place), place > 0);
  }
}

}  // namespace phalanx::ref
