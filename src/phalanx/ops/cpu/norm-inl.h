// A row of a norm's forward pass. Included once per target.

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "phalanx/ops/cpu/operands.h"
#include "phalanx/ops/cpu/pairs-inl.h"
#include "phalanx/tensor/tensor.h"

#if defined(PHALANX_OPS_CPU_NORM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PHALANX_OPS_CPU_NORM_INL_H_
#undef PHALANX_OPS_CPU_NORM_INL_H_
#else
#define PHALANX_OPS_CPU_NORM_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace phalanx::cpu::HWY_NAMESPACE {

// The factor of a normalised row: weight, or 1 + weight. Adding -0 changes no number.
template <typename T>
struct NormWeight {
  const T* data;
  float offset;

  NormWeight(const Tensor& weight, bool zero_centred)
      : data(dense<T>(weight)), offset(zero_centred ? 1.0F : -0.0F) {}

  template <typename Lanes>
  HWY_INLINE FloatVector load(Lanes lanes, std::int64_t i) const {
    return hn::Add(lanes.load(data + i), hn::Set(FloatTag(), offset));
  }
};

// Elements of a row less its mean; beyond the row they are minus the mean.
template <bool kMean>
HWY_INLINE FloatVector centred(FloatVector x, float mean) {
  return kMean ? hn::Sub(x, hn::Set(FloatTag(), mean)) : x;
}
template <bool kMean, typename Lanes, typename Stream>
HWY_INLINE FloatVector centred(Lanes lanes, const Stream* x, float mean) {
  return centred<kMean>(lanes.load(x), mean);
}

// The sum of a row.
template <typename T>
HWY_INLINE float row_sum(const T* x, std::int64_t columns) {
  if constexpr (kHasPairs<T>) {
    if (columns % kPairTerms == 0) {
      return pair_sum(x, columns, [](FloatVector sum, FloatVector value) HWY_ATTR {
        return hn::Add(sum, value);
      });
    }
  }
  FloatSums sums;
  for_terms<FloatSums>(0, columns, [&](std::int64_t i, auto lanes, auto k) HWY_ATTR {
    auto& sum = sums.at<decltype(k)::value>();
    sum = hn::Add(sum, lanes.load(x + i));
  });
  return sums.total();
}

// The sum of the squares of a row less its mean.
template <bool kMean, typename T>
HWY_INLINE float row_squares(const T* x, float mean, std::int64_t columns) {
  const auto add = [mean](FloatVector sum, FloatVector value) HWY_ATTR {
    value = centred<kMean>(value, mean);
    return hn::MulAdd(value, value, sum);
  };
  if constexpr (kHasPairs<T>) {
    if (columns % kPairTerms == 0) return pair_sum(x, columns, add);
  }
  FloatSums sums;
  for_terms<FloatSums>(0, columns, [&](std::int64_t i, auto lanes, auto k) HWY_ATTR {
    auto& sum = sums.at<decltype(k)::value>();
    auto value = centred<kMean>(lanes, x + i, mean);
    if constexpr (kMean) value = lanes.valid(value);
    sum = hn::MulAdd(value, value, sum);
  });
  return sums.total();
}

// The operands of ops that compute y by this expression: their results are equal to the bit.
template <bool kMean, typename T, typename Stream>
struct ForwardOperands {
  std::int64_t columns;
  Rows<Stream> x;
  Rows<T> y;
  NormWeight<T> weight;
  const T* bias;
  float* mean;
  float* rstd;

  template <typename Op>
  explicit ForwardOperands(const Op& op)
      : columns(op.x.shape[1]),
        x(rows_of<Stream>(op.x)),
        y(rows_of<T>(op.y)),
        weight(op.weight, op.zero_centred),
        bias(dense<T>(op.bias)),
        mean(dense<float>(op.mean)),
        rstd(dense<float>(op.rstd)) {}

  HWY_INLINE float mean_of(std::int64_t r) const { return kMean ? mean[r] : 0.0F; }

  // The statistics of row r.
  HWY_INLINE void measure(std::int64_t r, double epsilon) const {
    const auto count = static_cast<float>(columns);
    if constexpr (kMean) mean[r] = row_sum(x[r], columns) / count;
    const double variance = row_squares<kMean>(x[r], mean_of(r), columns) / count;
    rstd[r] = static_cast<float>(1.0 / std::sqrt(variance + epsilon));
  }

  // Row r of y.
  HWY_INLINE void normalise(std::int64_t r) const {
    const float row_mean = mean_of(r);
    const auto rstds = hn::Set(FloatTag(), rstd[r]);
    const auto offset = hn::Set(FloatTag(), weight.offset);
    if constexpr (kMean) {
      const auto shifted = [&](FloatVector value, FloatVector scale, FloatVector shift) HWY_ATTR {
        return hn::MulAdd(hn::Mul(centred<kMean>(value, row_mean), rstds), hn::Add(scale, offset),
                          shift);
      };
      map(0, columns, shifted, y[r], x[r], weight.data, bias);
    } else {
      const auto scaled = [&](FloatVector value, FloatVector scale) HWY_ATTR {
        return hn::Mul(hn::Mul(value, rstds), hn::Add(scale, offset));
      };
      map(0, columns, scaled, y[r], x[r], weight.data);
    }
  }
};

// Prefetches a row into the second-level cache.
template <typename T>
HWY_INLINE void prefetch_row(const T* row, std::int64_t columns) {
  constexpr std::int64_t kLine = 64 / sizeof(T);
  for (std::int64_t i = 0; i < columns; i += kLine) prefetch_second_level(row + i);
}

// Calls kernel(has a mean, storage type, stream type).
template <typename Op, typename Kernel>
HWY_INLINE void with_norm(const Op& op, const Tensor& y, const Kernel& kernel) {
  with_stream(y.dtype, op.x.dtype, [&](auto type, auto stream) HWY_ATTR {
    if (op.mean) {
      kernel(std::true_type(), type, stream);
    } else {
      kernel(std::false_type(), type, stream);
    }
  });
}

}  // namespace phalanx::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target toggle
