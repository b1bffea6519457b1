// Softmax cross entropy, a row at a time: one pass over the logits in blocks that fit the
// first-level cache (the largest and the sum of exponentials so far), then one over the row, now in
// the second-level cache, for the gradient.

// clang-format off
#include "phalanx/ops/cpu/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "phalanx/ops/cpu/cross_entropy.cc"
#include "hwy/foreach_target.h"
// clang-format on

#include <algorithm>
#include <cmath>
#include <limits>

#include "phalanx/ops/cpu/execute.h"
#include "phalanx/ops/cpu/exponential-inl.h"
#include "phalanx/ops/cpu/operands.h"
#include "phalanx/ops/cpu/parallel.h"
#include "phalanx/ops/cpu/storage-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phalanx::cpu::HWY_NAMESPACE {

// Lane sums go into a double after so many columns.
constexpr std::int64_t kColumnBlock = 4096;

// The largest logit so far and the sum of exp(x - largest), NaN where that has no meaning.
struct RowStatistics {
  float largest = -std::numeric_limits<float>::infinity();
  double sum = 0.0;
};

// One pass over a row. The largest of the logits grows a handful of times only; then the sums
// shrink.
template <typename T>
class RowPass {
 public:
  explicit HWY_INLINE RowPass(const T* x) : x_(x), largest_(hn::Set(FloatTag(), row_.largest)) {}

  HWY_INLINE RowStatistics run(std::int64_t vocabulary) {
    for (std::int64_t begin = 0; begin < vocabulary; begin += kColumnBlock) {
      const std::int64_t end = std::min(begin + kColumnBlock, vocabulary);
      sums_ = FloatSums();
      const std::int64_t group = 4 * lane_count();
      std::int64_t i = begin;
      for (; i + group <= end; i += group) add_group(i);
      for_vectors(i, end, [&](std::int64_t k, auto lanes) HWY_ATTR {
        const auto lowest = hn::Set(FloatTag(), -std::numeric_limits<float>::infinity());
        add_rest(lanes.valid_or(lanes.load(x_ + k), lowest));
      });
      row_.sum += sums_.total();
    }
    // Infinity less infinity: exponential_or_zero says 0.
    if (!std::isfinite(row_.largest)) row_.sum = std::numeric_limits<double>::quiet_NaN();
    return row_;
  }

 private:
  HWY_INLINE void add_group(std::int64_t i) {
    const FloatTag d;
    const std::int64_t step = lane_count();
    const auto x0 = load(x_ + i);
    const auto x1 = load(x_ + i + step);
    const auto x2 = load(x_ + i + 2 * step);
    const auto x3 = load(x_ + i + 3 * step);
    const auto bounded = hn::And(hn::And(hn::Le(x0, largest_), hn::Le(x1, largest_)),
                                 hn::And(hn::Le(x2, largest_), hn::Le(x3, largest_)));
    if (!hn::AllTrue(d, bounded)) [[unlikely]] {
      for (const auto& x : {x0, x1, x2, x3}) raise(x);
    }
    sums_.sum0 = hn::Add(sums_.sum0, exponential_or_zero(hn::Sub(x0, largest_)));
    sums_.sum1 = hn::Add(sums_.sum1, exponential_or_zero(hn::Sub(x1, largest_)));
    sums_.sum2 = hn::Add(sums_.sum2, exponential_or_zero(hn::Sub(x2, largest_)));
    sums_.sum3 = hn::Add(sums_.sum3, exponential_or_zero(hn::Sub(x3, largest_)));
  }
  HWY_INLINE void add_rest(FloatVector x) {
    if (!hn::AllTrue(FloatTag(), hn::Le(x, largest_))) raise(x);
    sums_.sum0 = hn::Add(sums_.sum0, exponential_or_zero(hn::Sub(x, largest_)));
  }
  // Takes the elements of x into the largest; NaN stays there for good.
  HWY_NOINLINE void raise(FloatVector x) {
    const FloatTag d;
    const float candidate = hn::AllFalse(d, hn::IsNaN(x)) ? hn::GetLane(hn::MaxOfLanes(d, x))
                                                          : std::numeric_limits<float>::quiet_NaN();
    if (candidate <= row_.largest || std::isnan(row_.largest)) return;
    const double shrink = std::exp(static_cast<double>(row_.largest) - candidate);
    row_.largest = candidate;
    row_.sum *= shrink;
    largest_ = hn::Set(d, candidate);
    const auto factor = hn::Set(d, static_cast<float>(shrink));
    sums_.sum0 = hn::Mul(sums_.sum0, factor);
    sums_.sum1 = hn::Mul(sums_.sum1, factor);
    sums_.sum2 = hn::Mul(sums_.sum2, factor);
    sums_.sum3 = hn::Mul(sums_.sum3, factor);
  }

  const T* x_;
  RowStatistics row_;
  FloatVector largest_;  // row_.largest in all lanes
  FloatSums sums_;
};

// dlogits = factor * (exp(x - largest) / sum - onehot(target)); a target below 0 is in no column.
// x may be dlogits.
template <typename From, typename To>
HWY_INLINE void row_gradient(const From* x, const RowStatistics& row, double factor,
                             std::int64_t target, std::int64_t vocabulary, std::int64_t columns,
                             To* dlogits) {
  const FloatTag d;
  const double at_target = target < 0 ? 0.0 : hn::GetLane(load_first(x + target, 1));
  const auto shift = hn::Set(d, row.largest);
  const auto scale = hn::Set(d, static_cast<float>(factor / row.sum));
  for_vectors(0, vocabulary, [&](std::int64_t i, auto lanes) HWY_ATTR {
    const auto exponential = exponential_or_zero(hn::Sub(lanes.load(x + i), shift));
    lanes.store(hn::Mul(exponential, scale), dlogits + i);
  });
  if (target >= 0) {
    const double probability = std::exp(at_target - row.largest) / row.sum;
    store_first(hn::Set(d, static_cast<float>(factor * (probability - 1.0))), dlogits + target, 1);
  }
  std::fill(dlogits + vocabulary, dlogits + columns, To());
}

// The same of a row without loss: zeros.
template <typename From, typename To>
HWY_INLINE void row_gradient_or_zero(const From* x, const RowStatistics& row, double factor,
                                     std::int64_t target, std::int64_t vocabulary,
                                     std::int64_t columns, To* dlogits) {
  if (factor == 0.0) {
    std::fill_n(dlogits, columns, To());
  } else {
    row_gradient(x, row, factor, target, vocabulary, columns, dlogits);
  }
}

template <typename From, typename To>
void rows(const CpuDevice& device, const ops::CrossEntropy& op) {
  const std::int64_t columns = op.logits.shape[1];
  const auto logits = rows_of<From>(op.logits);
  const auto dlogits = rows_of<To>(op.dlogits);
  float* loss = dense<float>(op.loss);
  const auto* targets = dense<std::int32_t>(op.targets);
  const float* mask = op.dlogits ? dense<float>(op.mask) : nullptr;
  const float seed = op.dlogits ? *dense<float>(op.seed) : 0.0F;
  const Blocks blocks = row_blocks(op.logits.shape[0], columns);
  parallel_for(device.threads, blocks.count(), [&](std::int64_t block) HWY_ATTR {
    for (std::int64_t r = blocks.begin(block); r < blocks.end(block); ++r) {
      const From* x = logits[r];
      const RowStatistics row = RowPass<From>(x).run(op.vocabulary);
      const double at_target = hn::GetLane(load_first(x + targets[r], 1));
      loss[r] = static_cast<float>(std::log(row.sum) + row.largest - at_target);
      if (dlogits.data == nullptr) continue;
      const double factor = static_cast<double>(seed) * mask[r];
      row_gradient_or_zero(x, row, factor, targets[r], op.vocabulary, columns, dlogits[r]);
    }
  });
}

// The columns of this rank that are tokens, and where among them a target is: -1 for none.
struct TokenColumns {
  std::int64_t first, count;

  template <typename Op>
  explicit TokenColumns(const Op& op)
      : first(op.first_column),
        count(std::clamp<std::int64_t>(op.vocabulary - first, 0, op.logits.shape[1])) {}

  std::int64_t of(std::int64_t target) const {
    const std::int64_t column = target - first;
    return column >= 0 && column < count ? column : -1;
  }
};

template <typename T>
void statistics(const CpuDevice& device, const ops::CrossEntropyStatistics& op) {
  const std::int64_t count = op.logits.shape[0];
  const TokenColumns tokens(op);
  const auto logits = rows_of<T>(op.logits);
  const auto* targets = dense<std::int32_t>(op.targets);
  float* largest = dense<float>(op.statistics);
  float* sum = largest + count;
  float* at_target = sum + count;
  const Blocks blocks = row_blocks(count, op.logits.shape[1]);
  parallel_for(device.threads, blocks.count(), [&](std::int64_t block) HWY_ATTR {
    for (std::int64_t r = blocks.begin(block); r < blocks.end(block); ++r) {
      const RowStatistics row = RowPass<T>(logits[r]).run(tokens.count);
      const bool none = row.largest == -std::numeric_limits<float>::infinity();
      largest[r] = row.largest;
      sum[r] = none ? 0.0F : static_cast<float>(row.sum);
      const std::int64_t target = tokens.of(targets[r]);
      at_target[r] = target < 0 ? 0.0F : hn::GetLane(load_first(logits[r] + target, 1));
    }
  });
}

// A row of the whole vocabulary from the statistics of its parts.
struct JoinedRow {
  RowStatistics row;
  double at_target = 0.0;

  // of: [ranks, 3, rows].
  JoinedRow(const float* of, std::int64_t ranks, std::int64_t rows, std::int64_t r) {
    const auto at = [&](std::int64_t rank, std::int64_t which) {
      return of[(3 * rank + which) * rows + r];
    };
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      row.largest = std::max(row.largest, at(rank, 0));
    }
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      // Infinity less infinity, and what no comparison found, make the sum NaN.
      row.sum += at(rank, 1) * std::exp(static_cast<double>(at(rank, 0)) - row.largest);
      at_target += at(rank, 2);
    }
  }
};

template <typename From, typename To>
void parallel_rows(const CpuDevice& device, const ops::VocabularyParallelCrossEntropy& op) {
  const std::int64_t count = op.logits.shape[0];
  const std::int64_t columns = op.logits.shape[1];
  const TokenColumns tokens(op);
  const auto logits = rows_of<From>(op.logits);
  const auto dlogits = rows_of<To>(op.dlogits);
  const float* parts = dense<float>(op.statistics);
  float* loss = dense<float>(op.loss);
  const auto* targets = dense<std::int32_t>(op.targets);
  const float* mask = op.dlogits ? dense<float>(op.mask) : nullptr;
  const float seed = op.dlogits ? *dense<float>(op.seed) : 0.0F;
  const Blocks blocks = row_blocks(count, columns);
  parallel_for(device.threads, blocks.count(), [&](std::int64_t block) HWY_ATTR {
    for (std::int64_t r = blocks.begin(block); r < blocks.end(block); ++r) {
      const JoinedRow joined(parts, op.statistics.shape[0], count, r);
      loss[r] =
          static_cast<float>(std::log(joined.row.sum) + joined.row.largest - joined.at_target);
      if (dlogits.data == nullptr) continue;
      row_gradient_or_zero(logits[r], joined.row, static_cast<double>(seed) * mask[r],
                           tokens.of(targets[r]), tokens.count, columns, dlogits[r]);
    }
  });
}

// body(From(), To()) with the types of logits and dlogits.
template <typename Op, typename Body>
void with_logits(const Op& op, const Body& body) {
  with_storage(op.logits.dtype, [&](auto from) HWY_ATTR {
    with_storage(op.dlogits ? op.dlogits.dtype : op.logits.dtype,
                 [&](auto to) HWY_ATTR { body(from, to); });
  });
}

void cross_entropy(const CpuDevice& device, const ops::CrossEntropy& op) {
  with_logits(op,
              [&](auto from, auto to) HWY_ATTR { rows<decltype(from), decltype(to)>(device, op); });
}
void cross_entropy_statistics(const CpuDevice& device, const ops::CrossEntropyStatistics& op) {
  with_storage(op.logits.dtype,
               [&](auto type) HWY_ATTR { statistics<decltype(type)>(device, op); });
}
void vocabulary_parallel_cross_entropy(const CpuDevice& device,
                                       const ops::VocabularyParallelCrossEntropy& op) {
  with_logits(op, [&](auto from, auto to)
                      HWY_ATTR { parallel_rows<decltype(from), decltype(to)>(device, op); });
}

}  // namespace phalanx::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace phalanx::cpu {

HWY_EXPORT(cross_entropy);
HWY_EXPORT(cross_entropy_statistics);
HWY_EXPORT(vocabulary_parallel_cross_entropy);

namespace {

void expect_tokens(const Tensor& targets, std::int64_t vocabulary) {
  for (const std::int32_t target : targets.span<std::int32_t>()) {
    PHALANX_CHECK(target >= 0 && target < vocabulary,
                  "cross_entropy: target {} of a vocabulary of {}", target, vocabulary);
  }
}

}  // namespace

void execute(CpuDevice& device, const ops::CrossEntropy& op, const Tensor& /*scratch*/) {
  expect_tokens(op.targets, op.vocabulary);
  HWY_DYNAMIC_DISPATCH(cross_entropy)(device, op);
}

void execute(CpuDevice& device, const ops::CrossEntropyStatistics& op, const Tensor& /*scratch*/) {
  expect_tokens(op.targets, op.vocabulary);
  HWY_DYNAMIC_DISPATCH(cross_entropy_statistics)(device, op);
}

void execute(CpuDevice& device, const ops::VocabularyParallelCrossEntropy& op,
             const Tensor& /*scratch*/) {
  expect_tokens(op.targets, op.vocabulary);
  HWY_DYNAMIC_DISPATCH(vocabulary_parallel_cross_entropy)(device, op);
}

void execute(CpuDevice& /*device*/, const ops::LossSeed& op, const Tensor& /*scratch*/) {
  double seed = *dense<float>(op.loss_scale) * op.factor;
  if (op.mask) {
    double count = 0.0;
    for (const float value : op.mask.span<float>()) count += value;
    seed = count == 0.0 ? 0.0 : seed / count;
  }
  *dense<float>(op.seed) = static_cast<float>(seed);
}

// In order, which is what makes the sum independent of how rows are cut into microbatches.
void execute(CpuDevice& /*device*/, const ops::LossAccumulate& op, const Tensor& /*scratch*/) {
  const auto loss = op.loss.span<float>();
  const auto mask = op.mask.span<float>();
  double sum = *dense<double>(op.sum);
  double count = *dense<double>(op.count);
  for (std::size_t r = 0; r < loss.size(); ++r) {
    sum += static_cast<double>(loss[r]) * mask[r];
    count += mask[r];
  }
  *dense<double>(op.sum) = sum;
  *dense<double>(op.count) = count;
}

std::int64_t workspace_bytes_of(const CpuDevice& /*device*/, const ops::LossAccumulate& /*op*/) {
  return 0;
}

}  // namespace phalanx::cpu
#endif  // HWY_ONCE
