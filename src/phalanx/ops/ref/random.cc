#include "phalanx/ops/ref/access.h"
#include "phalanx/ops/ref/execute.h"

namespace phalanx::ref {

void execute(RefDevice& /*device*/, const ops::Normal& op, const Tensor& /*scratch*/) {
  Array x(op.x.shape);
  for (std::int64_t r = 0; r < x.shape[0]; ++r) {
    for (std::int64_t c = 0; c < x.shape[1]; ++c) {
      const auto element =
          static_cast<std::uint64_t>((op.first_row + r) * op.global_columns + op.first_column + c);
      x(r, c) = op.deviation * normal_block(op.key, op.parameter, element / 4)[element % 4];
    }
  }
  write(op.x, x);
}

}  // namespace phalanx::ref
