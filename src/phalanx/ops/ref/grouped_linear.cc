// Group by group, by the ops of one group.

#include "phalanx/ops/ref/access.h"
#include "phalanx/ops/ref/execute.h"
#include "phalanx/ops/ref/groups.h"

namespace phalanx::ref {

void execute(RefDevice& device, const ops::GroupedLinearForward& op, const Tensor& scratch) {
  for_each_group(op.offsets, op.x.shape[0], [&](const Group& group) {
    const Tensor y = group.rows_of(op.y);
    if (!op.bias_factors) {
      execute(device,
              ops::LinearForward{.y = y,
                                 .x = group.rows_of(op.x),
                                 .weight = op.weight.select(0, group.number),
                                 .bias = op.bias ? op.bias.select(0, group.number) : Tensor()},
              scratch);
      return;
    }
    const Array x = read(group.rows_of(op.x));
    const Array weight = read(op.weight.select(0, group.number));
    const Array bias = read(op.bias.select(0, group.number));
    const Array factors = read(group.rows_of(op.bias_factors));
    Array sums(y.shape);
    for (std::int64_t r = 0; r < sums.shape[0]; ++r) {
      for (std::int64_t n = 0; n < sums.shape[1]; ++n) {
        sums(r, n) = factors(r) * bias(n);
        for (std::int64_t k = 0; k < x.shape[1]; ++k) sums(r, n) += x(r, k) * weight(n, k);
      }
    }
    write(y, sums);
  });
}

void execute(RefDevice& device, const ops::GroupedLinearInputGradient& op, const Tensor& scratch) {
  for_each_group(op.offsets, op.dy.shape[0], [&](const Group& group) {
    execute(device,
            ops::LinearInputGradient{.dx = group.rows_of(op.dx),
                                     .dy = group.rows_of(op.dy),
                                     .weight = op.weight.select(0, group.number)},
            scratch);
  });
}

void execute(RefDevice& device, const ops::GroupedLinearWeightGradient& op, const Tensor& scratch) {
  for_each_group(op.offsets, op.dy.shape[0], [&](const Group& group) {
    execute(device,
            ops::LinearWeightGradient{.dweight = op.dweight.select(0, group.number),
                                      .dy = group.rows_of(op.dy),
                                      .x = group.rows_of(op.x),
                                      .accumulate = op.accumulate},
            scratch);
  });
}

void execute(RefDevice& /*device*/, const ops::GroupedBiasGradient& op, const Tensor& /*scratch*/) {
  for_each_group(op.offsets, op.dy.shape[0], [&](const Group& group) {
    const Tensor sums = op.dbias.select(0, group.number);
    const Array dy = read(group.rows_of(op.dy));
    const Array factors = read(op.factors ? group.rows_of(op.factors) : Tensor());
    Array dbias = op.accumulate ? read(sums) : Array(sums.shape);
    for (std::int64_t r = 0; r < dy.shape[0]; ++r) {
      for (std::int64_t n = 0; n < dy.shape[1]; ++n) {
        dbias(n) += op.factors ? factors(r) * dy(r, n) : dy(r, n);
      }
    }
    write(sums, dbias);
  });
}

void execute(RefDevice& /*device*/, const ops::GroupedBiasDots& op, const Tensor& /*scratch*/) {
  for_each_group(op.offsets, op.dy.shape[0], [&](const Group& group) {
    const Tensor to = group.rows_of(op.dots);
    const Array dy = read(group.rows_of(op.dy));
    const Array bias = read(op.bias.select(0, group.number));
    Array dots = read(to);
    for (std::int64_t r = 0; r < dy.shape[0]; ++r) {
      for (std::int64_t n = 0; n < dy.shape[1]; ++n) dots(r) += dy(r, n) * bias(n);
    }
    write(to, dots);
  });
}

}  // namespace phalanx::ref
