#include <cmath>

#include "phalanx/ops/fault.h"
#include "phalanx/ops/ref/access.h"
#include "phalanx/ops/ref/execute.h"

namespace phalanx::ref {

// Computes angles in the table's precision, so f64 is exact.
void execute(RefDevice& /*device*/, const ops::RotaryTable& op, const Tensor& /*scratch*/) {
  const DType precision = op.table.dtype;
  const std::vector<double> theta = ops::rotary_frequencies(op.rotary, precision);
  const double step = round_to(precision, 1.0 / op.rotary.interpolation);
  const double factor = round_to(precision, op.rotary.attention_factor);
  const std::int64_t pairs = op.rotary.dimensions / 2;
  Array table(op.table.shape);
  for (std::int64_t p = 0; p < table.shape[0]; ++p) {
    const double position = round_to(precision, static_cast<double>(p) * step);
    for (std::int64_t i = 0; i < pairs; ++i) {
      const double angle = round_to(precision, position * theta[static_cast<std::size_t>(i)]);
      table(p, i) = round_to(precision, std::cos(angle)) * factor;
      table(p, pairs + i) = round_to(precision, std::sin(angle)) * factor;
    }
  }
  write(op.table, table);
}

void execute(RefDevice& /*device*/, const ops::Rotate& op, const Tensor& /*scratch*/) {
  Array x = read(op.x);
  const Integers position = read_integers(op.position);
  const Array table = read(op.table);
  const std::int64_t width = x.shape.back();
  const std::int64_t pairs = table.shape[1] / 2;
  const std::int64_t heads = x.shape.count() / (x.shape[0] * x.shape[1] * width);
  double* head = x.values.data();
  for (std::int64_t s = 0; s < x.shape[0]; ++s) {
    for (std::int64_t b = 0; b < x.shape[1]; ++b) {
      ops::expect_in_range<ops::Rotate>(s * x.shape[1] + b, position(s, b), table.shape[0]);
      for (std::int64_t h = 0; h < heads; ++h, head += width) {
        for (std::int64_t i = 0; i < pairs; ++i) {
          const double cosine = table(position(s, b), i);
          const double sine = (op.inverse ? -1.0 : 1.0) * table(position(s, b), pairs + i);
          double& first = head[op.interleaved ? 2 * i : i];
          double& second = head[op.interleaved ? 2 * i + 1 : i + pairs];
          const double turned = first * cosine - second * sine;
          second = second * cosine + first * sine;
          first = turned;
        }
      }
    }
  }
  write(op.y, x);
}

}  // namespace phalanx::ref
