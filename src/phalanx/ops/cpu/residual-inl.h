// Rows of residual + dropout(x + bias), of bf16 in pairs where nothing is dropped. Included once
// per target.

#include <cstdint>

#include "phalanx/ops/cpu/operands.h"
#include "phalanx/ops/cpu/pairs-inl.h"
#include "phalanx/ops/cpu/philox-inl.h"
#include "phalanx/ops/dropout.h"

#if defined(PHALANX_OPS_CPU_RESIDUAL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PHALANX_OPS_CPU_RESIDUAL_INL_H_
#undef PHALANX_OPS_CPU_RESIDUAL_INL_H_
#else
#define PHALANX_OPS_CPU_RESIDUAL_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace phalanx::cpu::HWY_NAMESPACE {

template <typename T, typename Stream>
struct ResidualSum {
  std::int64_t columns;
  Rows<T> x;
  Rows<Stream> residual, out;
  const T* bias;
  HiddenDropout dropout;

  explicit ResidualSum(const ops::BiasDropoutResidual& op)
      : columns(op.x.shape[2]),
        x(rows_of<T>(op.x)),
        residual(rows_of<Stream>(op.residual)),
        out(rows_of<Stream>(op.out)),
        bias(dense<T>(op.bias)),
        dropout(op.dropout, op.rows) {}

  // Row r of out.
  HWY_INLINE void write(std::int64_t r) const {
    if (!dropout.keeps_all()) return write_dropped(r);
    if (bias == nullptr) {
      const auto sum = [](FloatVector more, FloatVector value)
                           HWY_ATTR { return hn::Add(more, value); };
      map(0, columns, sum, out[r], residual[r], x[r]);
    } else {
      const auto sum = [](FloatVector more, FloatVector value, FloatVector shift)
                           HWY_ATTR { return hn::Add(more, round_to<T>(hn::Add(value, shift))); };
      map(0, columns, sum, out[r], residual[r], x[r], bias);
    }
  }

 private:
  HWY_INLINE void write_dropped(std::int64_t r) const {
    dropout.for_row(r, columns, [&](std::int64_t i, auto lanes, auto drop) HWY_ATTR {
      auto value = lanes.load(x[r] + i);
      if (bias != nullptr) value = round_to<T>(hn::Add(value, lanes.load(bias + i)));
      value = round_to<T>(drop(value));
      lanes.store(hn::Add(lanes.load(residual[r] + i), value), out[r] + i);
    });
  }
};

}  // namespace phalanx::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target toggle
