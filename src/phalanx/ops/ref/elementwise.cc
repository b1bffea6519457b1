#include "phalanx/ops/ref/access.h"
#include "phalanx/ops/ref/execute.h"

namespace phalanx::ref {

void execute(RefDevice& /*device*/, const ops::Fill& op, const Tensor& /*scratch*/) {
  Array x(op.x.shape);
  for (double& value : x.values) value = op.value;
  write(op.x, x);
}

void execute(RefDevice& /*device*/, const ops::Copy& op, const Tensor& /*scratch*/) {
  // Integers are copied as integers, because double cannot hold every 64-bit one.
  if (!is_floating(op.source.dtype) && !is_floating(op.destination.dtype)) {
    write_integers(op.destination, read_integers(op.source));
  } else {
    write(op.destination, read(op.source));
  }
}

void execute(RefDevice& /*device*/, const ops::Accumulate& op, const Tensor& /*scratch*/) {
  if (!is_floating(op.source.dtype) && !is_floating(op.destination.dtype)) {
    const Integers source = read_integers(op.source);
    Integers sum = read_integers(op.destination);
    for (std::size_t i = 0; i < sum.values.size(); ++i) sum.values[i] += source.values[i];
    write_integers(op.destination, sum);
    return;
  }
  const Array source = read(op.source);
  Array sum = read(op.destination);
  for (std::size_t i = 0; i < sum.values.size(); ++i) sum.values[i] += source.values[i];
  write(op.destination, sum);
}

void execute(RefDevice& /*device*/, const ops::Scale& op, const Tensor& /*scratch*/) {
  Array y = read(op.x);
  for (double& value : y.values) value *= op.factor;
  write(op.y, y);
}

}  // namespace phalanx::ref
