#include "phalanx/ops/ref/access.h"
#include "phalanx/ops/ref/execute.h"

namespace phalanx::ref {
namespace {

// `number` gives the number of an element of the global matrix.
template <typename Op, typename Number>
void draw(const Op& op, const Number& number) {
  Array x(op.x.shape);
  for (std::int64_t r = 0; r < x.shape[0]; ++r) {
    for (std::int64_t c = 0; c < x.shape[1]; ++c) {
      x(r, c) = number(
          static_cast<std::uint64_t>((op.first_row + r) * op.global_columns + op.first_column + c));
    }
  }
  write(op.x, x);
}

}  // namespace

void execute(RefDevice& /*device*/, const ops::Normal& op, const Tensor& /*scratch*/) {
  draw(op, [&](std::uint64_t element) {
    return op.deviation * normal_block(op.key, op.parameter, element / 4)[element % 4];
  });
}

void execute(RefDevice& /*device*/, const ops::Uniform& op, const Tensor& /*scratch*/) {
  draw(op, [&](std::uint64_t element) {
    return op.bound * uniform_block(op.key, op.parameter, element / 4)[element % 4];
  });
}

}  // namespace phalanx::ref
