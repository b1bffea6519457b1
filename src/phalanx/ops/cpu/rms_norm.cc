// Root mean square normalisation. T is the storage type, Stream that of what is normalised. As in
// layer_norm.cc, rows stay in the first-level cache between the passes over them, and sums over
// rows go through partial sums per block of rows.

// clang-format off
#include "phalanx/ops/cpu/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "phalanx/ops/cpu/rms_norm.cc"
#include "hwy/foreach_target.h"
// clang-format on

#include <algorithm>
#include <cmath>

#include "phalanx/ops/cpu/execute.h"
#include "phalanx/ops/cpu/norm-inl.h"
#include "phalanx/ops/cpu/operands.h"
#include "phalanx/ops/cpu/parallel.h"
#include "phalanx/ops/cpu/storage-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phalanx::cpu::HWY_NAMESPACE {

// One expression for forward and apply: their results are equal to the bit.
template <typename T, typename Stream>
HWY_INLINE void scale_row(const Stream* x, float rstd, const NormWeight<T>& weight, T* y,
                          std::int64_t columns) {
  const auto rstds = hn::Set(FloatTag(), rstd);
  for_vectors(0, columns, [&](std::int64_t i, auto lanes) HWY_ATTR {
    lanes.store(hn::Mul(hn::Mul(lanes.load(x + i), rstds), weight.load(lanes, i)), y + i);
  });
}

template <typename T>
HWY_INLINE float row_squares(const T* x, std::int64_t columns) {
  FloatSums sums;
  for_terms<FloatSums>(0, columns, [&](std::int64_t i, auto lanes, auto k) HWY_ATTR {
    auto& sum = sums.at<decltype(k)::value>();
    const auto value = lanes.load(x + i);
    sum = hn::MulAdd(value, value, sum);
  });
  return sums.total();
}

template <typename T, typename Stream>
void forward(const CpuDevice& device, const ops::RmsNormForward& op) {
  const std::int64_t columns = op.x.shape[1];
  const auto x = rows_of<Stream>(op.x);
  const auto y = rows_of<T>(op.y);
  const NormWeight<T> weight(op.weight, op.zero_centred);
  float* rstd = dense<float>(op.rstd);
  const auto count = static_cast<float>(columns);
  const Blocks blocks = row_blocks(op.x.shape[0], columns);
  parallel_for(device.threads, blocks.count(), [&](std::int64_t block) HWY_ATTR {
    for (std::int64_t r = blocks.begin(block); r < blocks.end(block); ++r) {
      const double mean = row_squares(x[r], columns) / count;
      rstd[r] = static_cast<float>(1.0 / std::sqrt(mean + op.epsilon));
      scale_row(x[r], rstd[r], weight, y[r], columns);
    }
  });
}

template <typename T, typename Stream>
void apply(const CpuDevice& device, const ops::RmsNormApply& op) {
  const std::int64_t columns = op.x.shape[1];
  const auto x = rows_of<Stream>(op.x);
  const auto y = rows_of<T>(op.y);
  const NormWeight<T> weight(op.weight, op.zero_centred);
  const float* rstd = dense<float>(op.rstd);
  const Blocks blocks = row_blocks(op.x.shape[0], columns);
  parallel_for(device.threads, blocks.count(), [&](std::int64_t block) HWY_ATTR {
    for (std::int64_t r = blocks.begin(block); r < blocks.end(block); ++r) {
      scale_row(x[r], rstd[r], weight, y[r], columns);
    }
  });
}

template <typename T, typename Stream>
struct BackwardOperands {
  std::int64_t columns;
  Rows<T> dy;
  Rows<Stream> dx, x, residual;
  NormWeight<T> weight;
  const float* rstd;

  explicit BackwardOperands(const ops::RmsNormBackward& op)
      : columns(op.x.shape[1]),
        dy(rows_of<T>(op.dy)),
        dx(rows_of<Stream>(op.dx)),
        x(rows_of<Stream>(op.x)),
        residual(rows_of<Stream>(op.residual)),
        weight(op.weight, op.zero_centred),
        rstd(dense<float>(op.rstd)) {}
};

// dx of one row. With g = dy weight and n = x rstd: rstd (g - n mean(g n)).
template <typename T, typename Stream>
HWY_INLINE void backward_row(const BackwardOperands<T, Stream>& in, std::int64_t r,
                             const RowTerms& products) {
  const FloatTag d;
  const auto rstd = hn::Set(d, in.rstd[r]);
  const auto mean = hn::Set(d, products.total() * (1.0F / static_cast<float>(in.columns)));
  const Stream* x = in.x[r];
  const T* dy = in.dy[r];
  const Stream* residual = in.residual.data == nullptr ? nullptr : in.residual[r];
  Stream* dx = in.dx[r];
  for_vectors(0, in.columns, [&](std::int64_t i, auto lanes) HWY_ATTR {
    const auto normalised = hn::Mul(lanes.load(x + i), rstd);
    const auto scaled = hn::Mul(lanes.load(dy + i), in.weight.load(lanes, i));
    const auto gradient = hn::Mul(rstd, hn::NegMulAdd(normalised, mean, scaled));
    store_gradient(lanes, gradient, residual, dx, i);
  });
}

// kRows rows from r on: one pass for the sum of every row and of every column (added to dweight),
// then dx.
template <int kRows, typename T, typename Stream>
HWY_INLINE void backward_rows(const BackwardOperands<T, Stream>& in, std::int64_t r,
                              float* dweight) {
  RowTerms products[kRows];
  for_terms<RowTerms>(0, in.columns, [&](std::int64_t i, auto lanes, auto part) HWY_ATTR {
    constexpr int kPart = decltype(part)::value;
    const auto weight = in.weight.load(lanes, i);
    auto weight_sum = lanes.load(dweight + i);
    HWY_UNROLL(4)
    for (int k = 0; k < kRows; ++k) {
      const auto rstd = hn::Set(FloatTag(), in.rstd[r + k]);
      const auto normalised = hn::Mul(lanes.load(in.x[r + k] + i), rstd);
      const auto dy = lanes.load(in.dy[r + k] + i);  // zero beyond the row, and so are the products
      weight_sum = hn::MulAdd(dy, normalised, weight_sum);
      auto& product = products[k].template at<kPart>();
      product = hn::MulAdd(hn::Mul(dy, weight), normalised, product);
    }
    lanes.store(weight_sum, dweight + i);
  });
  for (int k = 0; k < kRows; ++k) backward_row(in, r + k, products[k]);
}

template <typename T, typename Stream>
void backward(const CpuDevice& device, const ops::RmsNormBackward& op, float* partial) {
  const BackwardOperands<T, Stream> in(op);
  const Blocks blocks = partial_sum_blocks(op.x.shape[0]);
  parallel_for(device.threads, blocks.count(), [&](std::int64_t block) HWY_ATTR {
    float* dweight = partial + block * in.columns;
    std::fill(dweight, dweight + in.columns, 0.0F);
    std::int64_t r = blocks.begin(block);
    for (; r + kRowsTogether <= blocks.end(block); r += kRowsTogether) {
      backward_rows<kRowsTogether>(in, r, dweight);
    }
    for (; r < blocks.end(block); ++r) backward_rows<1>(in, r, dweight);
  });
  join_blocks<1>(device, partial, blocks.count(), in.columns, {dense<float>(op.dweight)});
}

void rms_norm_forward(const CpuDevice& device, const ops::RmsNormForward& op) {
  with_stream(op.y.dtype, op.x.dtype, [&](auto type, auto stream) HWY_ATTR {
    forward<decltype(type), decltype(stream)>(device, op);
  });
}
void rms_norm_apply(const CpuDevice& device, const ops::RmsNormApply& op) {
  with_stream(op.y.dtype, op.x.dtype, [&](auto type, auto stream) HWY_ATTR {
    apply<decltype(type), decltype(stream)>(device, op);
  });
}
void rms_norm_backward(const CpuDevice& device, const ops::RmsNormBackward& op, float* partial) {
  with_stream(op.dy.dtype, op.x.dtype, [&](auto type, auto stream) HWY_ATTR {
    backward<decltype(type), decltype(stream)>(device, op, partial);
  });
}

}  // namespace phalanx::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace phalanx::cpu {

HWY_EXPORT(rms_norm_forward);
HWY_EXPORT(rms_norm_apply);
HWY_EXPORT(rms_norm_backward);

std::int64_t workspace_bytes_of(const CpuDevice& /*device*/, const ops::RmsNormBackward& op) {
  return partial_sum_blocks(op.x.shape[0]).count() * op.x.shape[1] * size_of(DType::kF32);
}

void execute(CpuDevice& device, const ops::RmsNormForward& op, const Tensor& /*scratch*/) {
  HWY_DYNAMIC_DISPATCH(rms_norm_forward)(device, op);
}
void execute(CpuDevice& device, const ops::RmsNormApply& op, const Tensor& /*scratch*/) {
  HWY_DYNAMIC_DISPATCH(rms_norm_apply)(device, op);
}
void execute(CpuDevice& device, const ops::RmsNormBackward& op, const Tensor& scratch) {
  HWY_DYNAMIC_DISPATCH(rms_norm_backward)(device, op, reinterpret_cast<float*>(scratch.data()));
}

}  // namespace phalanx::cpu
#endif  // HWY_ONCE
