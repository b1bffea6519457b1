// Layer norms (kMean) and RMS norms. T is the storage type; Stream is the type of x. A row stays in
// the first-level cache between passes. Sums over rows use one partial sum per block of rows.

// clang-format off
#include "phalanx/ops/cpu/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "phalanx/ops/cpu/norm.cc"
#include "hwy/foreach_target.h"
// clang-format on

#include <algorithm>
#include <array>

#include "phalanx/ops/cpu/device.h"
#include "phalanx/ops/cpu/execute.h"
#include "phalanx/ops/cpu/norm-inl.h"
#include "phalanx/ops/cpu/operands.h"
#include "phalanx/ops/cpu/pairs-inl.h"
#include "phalanx/ops/cpu/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace phalanx::cpu::HWY_NAMESPACE {

// Sums within a row that are few enough for several rows in registers.
using RowTerms = Sums<float, 16>;

// Rows are added to the column sums in order. While these sums stay in the first-level cache, rows
// go one by one, so that hardware prefetching follows them through memory. Else several go
// together: as many as have their own sums in registers.
inline constexpr std::int64_t kCachedSumBytes = 8192;
inline constexpr int kRowsTogether = kMaxLanes >= 16 ? 4 : 2;

// Adds the column sums of all blocks of rows, which are adjacent in `partial`, in the order of the
// blocks.
template <std::size_t kSums>
HWY_INLINE void join_blocks(const CpuDevice& device, const float* partial, std::int64_t blocks,
                            std::int64_t columns, const std::array<float*, kSums>& sums) {
  const Blocks groups = column_blocks(columns);
  parallel_for(device.threads, groups.count(), [&](std::int64_t group) HWY_ATTR {
    for_vectors(groups.begin(group), groups.end(group), [&](std::int64_t i, auto lanes) HWY_ATTR {
      for (std::size_t k = 0; k < kSums; ++k) {
        const float* from = partial + static_cast<std::int64_t>(k) * columns + i;
        auto sum = hn::Zero(FloatTag());
        for (std::int64_t block = 0; block < blocks; ++block) {
          sum = hn::Add(sum, lanes.load(from));
          from += static_cast<std::int64_t>(kSums) * columns;
        }
        lanes.store(sum, sums[k] + i);
      }
    });
  });
}

template <bool kMean, typename T, typename Stream>
void forward(const CpuDevice& device, const ops::NormForward& op) {
  const ForwardOperands<kMean, T, Stream> in(op);
  const Blocks blocks = row_blocks(op.x.shape[0], in.columns);
  parallel_for(device.threads, blocks.count(), [&](std::int64_t block) HWY_ATTR {
    for (std::int64_t r = blocks.begin(block); r < blocks.end(block); ++r) {
      in.measure(r, op.epsilon);
      prefetch_row(in.x[r + 1], in.columns);
      in.normalise(r);
    }
  });
}

template <bool kMean, typename T, typename Stream>
void apply(const CpuDevice& device, const ops::NormApply& op) {
  const ForwardOperands<kMean, T, Stream> in(op);
  const Blocks blocks = row_blocks(op.x.shape[0], in.columns);
  parallel_for(device.threads, blocks.count(), [&](std::int64_t block) HWY_ATTR {
    for (std::int64_t r = blocks.begin(block); r < blocks.end(block); ++r) {
      prefetch_row(in.x[r + 1], in.columns);
      in.normalise(r);
    }
  });
}

template <bool kMean, typename T, typename Stream>
struct BackwardOperands {
  std::int64_t columns;
  Rows<T> dy;
  Rows<Stream> dx, x, residual;
  NormWeight<T> weight;
  const float* mean;
  const float* rstd;

  explicit BackwardOperands(const ops::NormBackward& op)
      : columns(op.x.shape[1]),
        dy(rows_of<T>(op.dy)),
        dx(rows_of<Stream>(op.dx)),
        x(rows_of<Stream>(op.x)),
        residual(rows_of<Stream>(op.residual)),
        weight(op.weight, op.zero_centred),
        mean(dense<float>(op.mean)),
        rstd(dense<float>(op.rstd)) {}
};

// With g = dy weight and n the normalised row: the sums of g (for layer norms) and of g n.
struct RowSums {
  RowTerms gradient, product;

  HWY_INLINE RowSums() : gradient(), product() {}
};

// dx of one row from its sums: rstd (g - mean(g) - n mean(g n)), without mean(g) in RMS norms;
// rounded and added to the residual if there is one.
template <bool kMean, typename T, typename Stream>
HWY_INLINE void backward_row(const BackwardOperands<kMean, T, Stream>& in, std::int64_t r,
                             const RowSums& sums) {
  const FloatTag d;
  const float mean = kMean ? in.mean[r] : 0.0F;
  const auto rstd = hn::Set(d, in.rstd[r]);
  const float inverse_count = 1.0F / static_cast<float>(in.columns);
  const auto mean_product = hn::Set(d, sums.product.total() * inverse_count);
  const auto mean_gradient = hn::Set(d, kMean ? sums.gradient.total() * inverse_count : 0.0F);
  const Stream* x = in.x[r];
  const T* dy = in.dy[r];
  const Stream* residual = in.residual.data == nullptr ? nullptr : in.residual[r];
  Stream* dx = in.dx[r];
  const T* weight = in.weight.data;
  const auto offset = hn::Set(d, in.weight.offset);
  const auto gradient_of = [&](FloatVector value, FloatVector of_y, FloatVector scale) HWY_ATTR {
    const auto normalised = hn::Mul(centred<kMean>(value, mean), rstd);
    // The same product as in the sums, so a row with one column has gradient 0.
    auto scaled = hn::Mul(of_y, hn::Add(scale, offset));
    if constexpr (kMean) scaled = hn::Sub(scaled, mean_gradient);
    return hn::Mul(rstd, hn::NegMulAdd(normalised, mean_product, scaled));
  };
  if (residual == nullptr) {
    map(0, in.columns, gradient_of, dx, x, dy, weight);
  } else {
    const auto body =
        [&](FloatVector value, FloatVector of_y, FloatVector scale, FloatVector more)
            HWY_ATTR { return hn::Add(round_to<Stream>(gradient_of(value, of_y, scale)), more); };
    map(0, in.columns, body, dx, x, dy, weight, residual);
  }
}

// Prefetches what memory brings late (measured on a Zen 4): in f32 the lines that kRows rows from r
// on write, in 16 bits the rows behind them. Both at once are more than a core has under way.
template <int kRows, bool kMean, typename T, typename Stream>
HWY_INLINE void prefetch_rows(const BackwardOperands<kMean, T, Stream>& in, std::int64_t r,
                              std::int64_t i) {
  for (int k = 0; k < kRows; ++k) {
    if constexpr (sizeof(T) == sizeof(float)) {
      prefetch_second_level(in.dx[r + k] + i);
    } else {
      prefetch_second_level(in.x[r + kRows + k] + i);
      prefetch_second_level(in.dy[r + kRows + k] + i);
    }
  }
}

// kRows rows from r on: one pass for the sums of every row and of every column (added to dweight
// and to dbias, which lies behind it), then dx.
template <int kRows, bool kMean, typename T, typename Stream>
HWY_INLINE void backward_rows(const BackwardOperands<kMean, T, Stream>& in, std::int64_t r,
                              float* dweight) {
  const FloatTag d;
  float* dbias = dweight + in.columns;
  // Copies, because the compiler reads what lies in memory again after every store.
  const NormWeight<T> weights = in.weight;
  const Stream* x[kRows];
  const T* dy[kRows];
  FloatVector mean[kRows], rstd[kRows];
  for (int k = 0; k < kRows; ++k) {
    x[k] = in.x[r + k];
    dy[k] = in.dy[r + k];
    mean[k] = hn::Set(d, kMean ? in.mean[r + k] : 0.0F);
    rstd[k] = hn::Set(d, in.rstd[r + k]);
  }
  RowSums sums[kRows];
  for_terms<RowTerms>(0, in.columns, [&](std::int64_t i, auto lanes, auto part) HWY_ATTR {
    constexpr int kPart = decltype(part)::value;
    if constexpr (kRows > 1) prefetch_rows<kRows>(in, r, i);
    const auto weight = weights.load(lanes, i);
    auto weight_sum = lanes.load(dweight + i);
    auto bias_sum = hn::Zero(d);
    if constexpr (kMean) bias_sum = lanes.load(dbias + i);
    HWY_UNROLL(4)
    for (int k = 0; k < kRows; ++k) {
      auto normalised = lanes.load(x[k] + i);
      if constexpr (kMean) normalised = hn::Sub(normalised, mean[k]);
      normalised = hn::Mul(normalised, rstd[k]);
      const auto gradient_of_y = lanes.load(dy[k] + i);  // zero beyond the row; so are products
      const auto gradient = hn::Mul(gradient_of_y, weight);
      weight_sum = hn::MulAdd(gradient_of_y, normalised, weight_sum);
      auto& product_sum = sums[k].product.template at<kPart>();
      product_sum = hn::MulAdd(gradient, normalised, product_sum);
      if constexpr (kMean) {
        bias_sum = hn::Add(bias_sum, gradient_of_y);
        auto& gradient_sum = sums[k].gradient.template at<kPart>();
        gradient_sum = hn::Add(gradient_sum, gradient);
      }
    }
    lanes.store(weight_sum, dweight + i);
    if constexpr (kMean) lanes.store(bias_sum, dbias + i);
  });
  for (int k = 0; k < kRows; ++k) backward_row(in, r + k, sums[k]);
}

template <bool kMean, typename T, typename Stream>
void backward(const CpuDevice& device, const ops::NormBackward& op, float* partial) {
  constexpr std::size_t kSums = kMean ? 2 : 1;  // of a block: dweight, dbias
  const BackwardOperands<kMean, T, Stream> in(op);
  const Blocks blocks = partial_sum_blocks(op.x.shape[0]);
  parallel_for(device.threads, blocks.count(), [&](std::int64_t block) HWY_ATTR {
    const std::int64_t count = static_cast<std::int64_t>(kSums) * in.columns;
    float* dweight = partial + block * count;
    std::fill(dweight, dweight + count, 0.0F);
    std::int64_t r = blocks.begin(block);
    if (count * static_cast<std::int64_t>(sizeof(float)) > kCachedSumBytes) {
      for (; r + kRowsTogether <= blocks.end(block); r += kRowsTogether) {
        backward_rows<kRowsTogether>(in, r, dweight);
      }
    }
    for (; r < blocks.end(block); ++r) backward_rows<1>(in, r, dweight);
  });
  std::array<float*, kSums> sums = {dense<float>(op.dweight)};
  if constexpr (kMean) sums[1] = dense<float>(op.dbias);
  join_blocks<kSums>(device, partial, blocks.count(), in.columns, sums);
}

void norm_forward(const CpuDevice& device, const ops::NormForward& op) {
  with_norm(op, op.y, [&](auto mean, auto type, auto stream) HWY_ATTR {
    forward<mean(), decltype(type), decltype(stream)>(device, op);
  });
}
void norm_apply(const CpuDevice& device, const ops::NormApply& op) {
  with_norm(op, op.y, [&](auto mean, auto type, auto stream) HWY_ATTR {
    apply<mean(), decltype(type), decltype(stream)>(device, op);
  });
}
void norm_backward(const CpuDevice& device, const ops::NormBackward& op, float* partial) {
  with_norm(op, op.dy, [&](auto mean, auto type, auto stream) HWY_ATTR {
    backward<mean(), decltype(type), decltype(stream)>(device, op, partial);
  });
}

}  // namespace phalanx::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace phalanx::cpu {

HWY_EXPORT(norm_forward);
HWY_EXPORT(norm_apply);
HWY_EXPORT(norm_backward);

void execute(CpuDevice& device, const ops::NormForward& op, const Tensor& /*scratch*/) {
  for (std::int64_t place = 0; place < ops::places_of(op); ++place) {
    HWY_DYNAMIC_DISPATCH(norm_forward)(device, ops::at_place(op, place));
  }
}

void execute(CpuDevice& device, const ops::NormApply& op, const Tensor& /*scratch*/) {
  for (std::int64_t place = 0; place < ops::places_of(op); ++place) {
    HWY_DYNAMIC_DISPATCH(norm_apply)(device, ops::at_place(op, place));
  }
}

namespace {

// A tensor like `sum` in scratch memory.
Tensor scratch_sum(const Tensor& sum, const Tensor& scratch, std::int64_t offset) {
  Tensor made = sum;
  made.arena = scratch.arena;
  made.space = scratch.space;
  made.offset = scratch.offset + offset;
  return made;
}

void add_sums(const Tensor& to, const Tensor& from) {
  float* sums = to.as<float>();
  const float* more = from.as<float>();
  const FlushToZero mode;
  for (std::int64_t i = 0; i < to.count(); ++i) sums[i] += more[i];
}

}  // namespace

std::int64_t workspace_bytes_of(const CpuDevice& /*device*/, const ops::NormBackward& op) {
  // Of the blocks of rows, and of a place behind the first.
  const std::int64_t sums = op.mean ? 2 : 1;
  const std::int64_t blocks = partial_sum_blocks(op.x.shape[0]).count();
  const std::int64_t of_place = ops::places_of(op) > 1 ? 1 : 0;
  return (blocks + of_place) * sums * op.x.shape.back() * size_of(DType::kF32);
}

void execute(CpuDevice& device, const ops::NormBackward& op, const Tensor& scratch) {
  auto* partial = reinterpret_cast<float*>(scratch.data());
  const std::int64_t columns = op.x.shape.back();
  ops::NormBackward first = ops::at_place(op, 0);
  HWY_DYNAMIC_DISPATCH(norm_backward)(device, first, partial);
  // The first place overwrites the sums, the others are added in their order.
  for (std::int64_t place = 1; place < ops::places_of(op); ++place) {
    ops::NormBackward at = ops::at_place(op, place);
    const std::int64_t row_bytes = columns * size_of(DType::kF32);
    at.dweight = scratch_sum(op.dweight, scratch, 0);
    if (op.dbias) at.dbias = scratch_sum(op.dbias, scratch, row_bytes);
    HWY_DYNAMIC_DISPATCH(norm_backward)(device, at, partial + (op.mean ? 2 : 1) * columns);
    add_sums(op.dweight, at.dweight);
    if (op.dbias) add_sums(op.dbias, at.dbias);
  }
}

}  // namespace phalanx::cpu
#endif  // HWY_ONCE
