#include "phalanx/ops/ref/access.h"
#include "phalanx/ops/ref/execute.h"

namespace phalanx::ref {
namespace {

double multiplier(const Dropout& dropout, const Coordinates& rows, std::int64_t s, std::int64_t b,
                  std::int64_t feature) {
  if (dropout.probability == 0.0) return 1.0;
  return dropout_multiplier(dropout, dropout.site, rows.sample(s, b), rows.position(s, b),
                            dropout.first_feature + feature);
}

}  // namespace

void execute(RefDevice& /*device*/, const ops::BiasDropoutResidual& op, const Tensor& /*scratch*/) {
  const Array x = read(op.x);
  const Array bias = read(op.bias);
  const Array residual = read(op.residual);
  const Coordinates rows(op.rows);
  Array out(x.shape);
  for (std::int64_t s = 0; s < x.shape[0]; ++s) {
    for (std::int64_t b = 0; b < x.shape[1]; ++b) {
      for (std::int64_t i = 0; i < x.shape[2]; ++i) {
        const double biased = op.bias ? round_to(op.x.dtype, x(s, b, i) + bias(i)) : x(s, b, i);
        const double dropped = round_to(op.x.dtype, biased * multiplier(op.dropout, rows, s, b, i));
        out(s, b, i) = residual(s, b, i) + dropped;
      }
    }
  }
  write(op.out, out);
}

void execute(RefDevice& /*device*/, const ops::DropoutBackward& op, const Tensor& /*scratch*/) {
  const Array dout = read(op.dout);
  const Coordinates rows(op.rows);
  Array dx(dout.shape);
  for (std::int64_t s = 0; s < dx.shape[0]; ++s) {
    for (std::int64_t b = 0; b < dx.shape[1]; ++b) {
      for (std::int64_t i = 0; i < dx.shape[2]; ++i) {
        dx(s, b, i) = dout(s, b, i) * multiplier(op.dropout, rows, s, b, i);
      }
    }
  }
  write(op.dx, dx);
}

void execute(RefDevice& /*device*/, const ops::Jitter& op, const Tensor& /*scratch*/) {
  const Array x = read(op.x);
  const Coordinates rows(op.rows);
  Array y(x.shape);
  for (std::int64_t s = 0; s < x.shape[0]; ++s) {
    for (std::int64_t b = 0; b < x.shape[1]; ++b) {
      const auto sample = static_cast<std::uint64_t>(rows.sample(s, b));
      for (std::int64_t i = 0; i < x.shape[2]; ++i) {
        const auto feature = static_cast<std::uint32_t>(i);
        const PhiloxWords words =
            philox4x32(dropout_sample_key(op.key, sample),
                       dropout_counter(sample, op.site,
                                       static_cast<std::uint32_t>(rows.position(s, b)), feature));
        y(s, b, i) = x(s, b, i) * jitter_factor(words[feature % 4], static_cast<float>(op.epsilon));
      }
    }
  }
  write(op.y, y);
}

}  // namespace phalanx::ref
