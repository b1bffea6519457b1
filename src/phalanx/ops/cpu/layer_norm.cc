// Layer normalisation. T is the storage type, Stream that of what is normalised. Rows are
// independent and stay in the first-level cache between the passes over them; sums over rows go
// through partial sums per block of rows.

// clang-format off
#include "phalanx/ops/cpu/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "phalanx/ops/cpu/layer_norm.cc"
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
HWY_INLINE void normalise_row(const Stream* x, float mean, float rstd, const NormWeight<T>& weight,
                              const T* bias, T* y, std::int64_t columns) {
  const auto means = hn::Set(FloatTag(), mean);
  const auto rstds = hn::Set(FloatTag(), rstd);
  for_vectors(0, columns, [&](std::int64_t i, auto lanes) HWY_ATTR {
    const auto normalised = hn::Mul(hn::Sub(lanes.load(x + i), means), rstds);
    lanes.store(hn::MulAdd(normalised, weight.load(lanes, i), lanes.load(bias + i)), y + i);
  });
}

template <typename T>
HWY_INLINE float row_sum(const T* x, std::int64_t columns) {
  FloatSums sums;
  for_terms<FloatSums>(0, columns, [&](std::int64_t i, auto lanes, auto k) HWY_ATTR {
    auto& sum = sums.at<decltype(k)::value>();
    sum = hn::Add(sum, lanes.load(x + i));
  });
  return sums.total();
}

template <typename T>
HWY_INLINE float row_squared_deviations(const T* x, float mean, std::int64_t columns) {
  const auto means = hn::Set(FloatTag(), mean);
  FloatSums sums;
  for_terms<FloatSums>(0, columns, [&](std::int64_t i, auto lanes, auto k) HWY_ATTR {
    auto& sum = sums.at<decltype(k)::value>();
    const auto deviation = lanes.valid(hn::Sub(lanes.load(x + i), means));
    sum = hn::MulAdd(deviation, deviation, sum);
  });
  return sums.total();
}

template <typename T, typename Stream>
void forward(const CpuDevice& device, const ops::LayerNormForward& op) {
  const std::int64_t columns = op.x.shape[1];
  const auto x = rows_of<Stream>(op.x);
  const auto y = rows_of<T>(op.y);
  const NormWeight<T> weight(op.weight, op.zero_centred);
  const T* bias = dense<T>(op.bias);
  float* mean = dense<float>(op.mean);
  float* rstd = dense<float>(op.rstd);
  const auto count = static_cast<float>(columns);
  const Blocks blocks = row_blocks(op.x.shape[0], columns);
  parallel_for(device.threads, blocks.count(), [&](std::int64_t block) HWY_ATTR {
    for (std::int64_t r = blocks.begin(block); r < blocks.end(block); ++r) {
      mean[r] = row_sum(x[r], columns) / count;
      const double variance = row_squared_deviations(x[r], mean[r], columns) / count;
      rstd[r] = static_cast<float>(1.0 / std::sqrt(variance + op.epsilon));
      normalise_row(x[r], mean[r], rstd[r], weight, bias, y[r], columns);
    }
  });
}

template <typename T, typename Stream>
void apply(const CpuDevice& device, const ops::LayerNormApply& op) {
  const std::int64_t columns = op.x.shape[1];
  const auto x = rows_of<Stream>(op.x);
  const auto y = rows_of<T>(op.y);
  const NormWeight<T> weight(op.weight, op.zero_centred);
  const T* bias = dense<T>(op.bias);
  const float* mean = dense<float>(op.mean);
  const float* rstd = dense<float>(op.rstd);
  const Blocks blocks = row_blocks(op.x.shape[0], columns);
  parallel_for(device.threads, blocks.count(), [&](std::int64_t block) HWY_ATTR {
    for (std::int64_t r = blocks.begin(block); r < blocks.end(block); ++r) {
      normalise_row(x[r], mean[r], rstd[r], weight, bias, y[r], columns);
    }
  });
}

template <typename T, typename Stream>
struct BackwardOperands {
  std::int64_t columns;
  Rows<T> dy;
  Rows<Stream> dx, x, residual;
  NormWeight<T> weight;
  const float* mean;
  const float* rstd;

  explicit BackwardOperands(const ops::LayerNormBackward& op)
      : columns(op.x.shape[1]),
        dy(rows_of<T>(op.dy)),
        dx(rows_of<Stream>(op.dx)),
        x(rows_of<Stream>(op.x)),
        residual(rows_of<Stream>(op.residual)),
        weight(op.weight, op.zero_centred),
        mean(dense<float>(op.mean)),
        rstd(dense<float>(op.rstd)) {}
};

// With g = dy weight and n the normalised row: the sums of g and of g n.
struct RowSums {
  RowTerms gradient, product;

  HWY_INLINE RowSums() : gradient(), product() {}
};

// dx of one row from its sums.
template <typename T, typename Stream>
HWY_INLINE void backward_row(const BackwardOperands<T, Stream>& in, std::int64_t r,
                             const RowSums& sums) {
  const FloatTag d;
  const auto mean = hn::Set(d, in.mean[r]);
  const auto rstd = hn::Set(d, in.rstd[r]);
  const float inverse_count = 1.0F / static_cast<float>(in.columns);
  const auto mean_gradient = hn::Set(d, sums.gradient.total() * inverse_count);
  const auto mean_product = hn::Set(d, sums.product.total() * inverse_count);
  const Stream* x = in.x[r];
  const T* dy = in.dy[r];
  const Stream* residual = in.residual.data == nullptr ? nullptr : in.residual[r];
  Stream* dx = in.dx[r];
  for_vectors(0, in.columns, [&](std::int64_t i, auto lanes) HWY_ATTR {
    const auto normalised = hn::Mul(hn::Sub(lanes.load(x + i), mean), rstd);
    // As in the sums: with a single column nothing must remain.
    const auto scaled = hn::Mul(lanes.load(dy + i), in.weight.load(lanes, i));
    const auto centred = hn::Sub(scaled, mean_gradient);
    const auto gradient = hn::Mul(rstd, hn::NegMulAdd(normalised, mean_product, centred));
    store_gradient(lanes, gradient, residual, dx, i);
  });
}

// kRows rows from r on: one pass for the sums of every row and of every column (added to dweight
// and dbias), then dx.
template <int kRows, typename T, typename Stream>
HWY_INLINE void backward_rows(const BackwardOperands<T, Stream>& in, std::int64_t r, float* dweight,
                              float* dbias) {
  const FloatTag d;
  RowSums sums[kRows];
  for_terms<RowTerms>(0, in.columns, [&](std::int64_t i, auto lanes, auto part) HWY_ATTR {
    constexpr int kPart = decltype(part)::value;
    const auto weight = in.weight.load(lanes, i);
    auto weight_sum = lanes.load(dweight + i);
    auto bias_sum = lanes.load(dbias + i);
    HWY_UNROLL(4)
    for (int k = 0; k < kRows; ++k) {
      const auto centred = hn::Sub(lanes.load(in.x[r + k] + i), hn::Set(d, in.mean[r + k]));
      const auto normalised = hn::Mul(centred, hn::Set(d, in.rstd[r + k]));
      const auto dy = lanes.load(in.dy[r + k] + i);  // zero beyond the row, and so are the products
      const auto gradient = hn::Mul(dy, weight);
      weight_sum = hn::MulAdd(dy, normalised, weight_sum);
      bias_sum = hn::Add(bias_sum, dy);
      auto& gradient_sum = sums[k].gradient.template at<kPart>();
      auto& product_sum = sums[k].product.template at<kPart>();
      gradient_sum = hn::Add(gradient_sum, gradient);
      product_sum = hn::MulAdd(gradient, normalised, product_sum);
    }
    lanes.store(weight_sum, dweight + i);
    lanes.store(bias_sum, dbias + i);
  });
  for (int k = 0; k < kRows; ++k) backward_row(in, r + k, sums[k]);
}

template <typename T, typename Stream>
void backward(const CpuDevice& device, const ops::LayerNormBackward& op, float* partial) {
  const BackwardOperands<T, Stream> in(op);
  const std::int64_t columns = in.columns;
  const Blocks blocks = partial_sum_blocks(op.x.shape[0]);
  parallel_for(device.threads, blocks.count(), [&](std::int64_t block) HWY_ATTR {
    float* dweight = partial + block * 2 * columns;
    float* dbias = dweight + columns;
    std::fill(dweight, dweight + 2 * columns, 0.0F);
    std::int64_t r = blocks.begin(block);
    for (; r + kRowsTogether <= blocks.end(block); r += kRowsTogether) {
      backward_rows<kRowsTogether>(in, r, dweight, dbias);
    }
    for (; r < blocks.end(block); ++r) backward_rows<1>(in, r, dweight, dbias);
  });
  join_blocks<2>(device, partial, blocks.count(), columns,
                 {dense<float>(op.dweight), dense<float>(op.dbias)});
}

void layer_norm_forward(const CpuDevice& device, const ops::LayerNormForward& op) {
  with_stream(op.y.dtype, op.x.dtype, [&](auto type, auto stream) HWY_ATTR {
    forward<decltype(type), decltype(stream)>(device, op);
  });
}
void layer_norm_apply(const CpuDevice& device, const ops::LayerNormApply& op) {
  with_stream(op.y.dtype, op.x.dtype, [&](auto type, auto stream) HWY_ATTR {
    apply<decltype(type), decltype(stream)>(device, op);
  });
}
void layer_norm_backward(const CpuDevice& device, const ops::LayerNormBackward& op,
                         float* partial) {
  with_stream(op.dy.dtype, op.x.dtype, [&](auto type, auto stream) HWY_ATTR {
    backward<decltype(type), decltype(stream)>(device, op, partial);
  });
}

}  // namespace phalanx::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace phalanx::cpu {

HWY_EXPORT(layer_norm_forward);
HWY_EXPORT(layer_norm_apply);
HWY_EXPORT(layer_norm_backward);

std::int64_t workspace_bytes_of(const CpuDevice& /*device*/, const ops::LayerNormBackward& op) {
  return partial_sum_blocks(op.x.shape[0]).count() * 2 * op.x.shape[1] * size_of(DType::kF32);
}

void execute(CpuDevice& device, const ops::LayerNormForward& op, const Tensor& /*scratch*/) {
  HWY_DYNAMIC_DISPATCH(layer_norm_forward)(device, op);
}
void execute(CpuDevice& device, const ops::LayerNormApply& op, const Tensor& /*scratch*/) {
  HWY_DYNAMIC_DISPATCH(layer_norm_apply)(device, op);
}
void execute(CpuDevice& device, const ops::LayerNormBackward& op, const Tensor& scratch) {
  HWY_DYNAMIC_DISPATCH(layer_norm_backward)(device, op, reinterpret_cast<float*>(scratch.data()));
}

}  // namespace phalanx::cpu
#endif  // HWY_ONCE
