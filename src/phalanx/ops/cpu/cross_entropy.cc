// Softmax cross entropy, a row at a time, in one pass over the logits. Blocks of columns fit the
// first-level cache: first the largest logit of a block, then its exponentials and their sum. The
// exponentials stay in the second-level cache, and the gradient only scales them.

// clang-format off
#include "phalanx/ops/cpu/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "phalanx/ops/cpu/cross_entropy.cc"
#include "hwy/foreach_target.h"
// clang-format on

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "phalanx/ops/cpu/execute.h"
#include "phalanx/ops/cpu/logits-inl.h"
#include "phalanx/ops/cpu/operands.h"
#include "phalanx/ops/cpu/parallel.h"
#include "phalanx/ops/fault.h"

HWY_BEFORE_NAMESPACE();
namespace phalanx::cpu::HWY_NAMESPACE {

// The gradient of a row without loss: zeros.
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

// Whether a row counts; without a mask every row counts.
HWY_INLINE bool counts(const float* mask, std::int64_t row) {
  return mask == nullptr || mask[row] != 0.0F;
}

// The scratch of one thread: the exponentials of a row, unless they lie in the gradient's memory,
// and the largest logit of every block.
struct RowScratch {
  std::int64_t powers = 0;  // floats
  std::int64_t size = 0;    // floats of both

  explicit RowScratch(const ops::CrossEntropy& op) {
    if (!op.dlogits) return;
    const std::int64_t columns = op.logits.shape[1];
    if (op.dlogits.dtype != DType::kF32) powers = powers_size(columns);
    size = powers + Blocks{columns, kLogitBlock}.count();
  }
};

template <typename From, typename To>
void rows(const CpuDevice& device, const ops::CrossEntropy& op, float* scratch) {
  const std::int64_t columns = op.logits.shape[1];
  const auto logits = rows_of<From>(op.logits);
  const auto dlogits = rows_of<To>(op.dlogits);
  float* loss = dense<float>(op.loss);
  const auto* targets = dense<std::int32_t>(op.targets);
  const float* mask = dense<float>(op.mask);
  const float seed = op.dlogits ? *dense<float>(op.seed) : 0.0F;
  const RowScratch layout(op);
  const Blocks blocks = row_blocks(op.logits.shape[0], columns);
  parallel_for(device.threads, blocks.count(), [&](std::int64_t block, int slot) HWY_ATTR {
    float* own = scratch + slot * layout.size;
    for (std::int64_t r = blocks.begin(block); r < blocks.end(block); ++r) {
      if (!counts(mask, r)) {
        loss[r] = 0.0F;
        if (dlogits.data != nullptr) std::fill_n(dlogits[r], columns, To());
        continue;
      }
      const From* x = logits[r];
      const double factor = mask == nullptr ? 0.0 : static_cast<double>(seed) * mask[r];
      const float at_target = hn::GetLane(load_first(x + targets[r], 1));
      float* powers = nullptr;
      if (factor != 0.0) {
        powers = own;
        if constexpr (std::is_same_v<To, float>) powers = dlogits[r];
      }
      float* largest = own + layout.powers;
      const RowStatistics row = statistics_of(x, op.vocabulary, powers, largest);
      loss[r] = static_cast<float>(std::log(row.sum) + row.largest - at_target);
      if (dlogits.data == nullptr) continue;
      if (factor == 0.0) {
        std::fill_n(dlogits[r], columns, To());
        continue;
      }
      scale_powers<From>(powers, largest, row, factor, op.vocabulary, dlogits[r]);
      finish_gradient(row, factor, at_target, targets[r], op.vocabulary, columns, dlogits[r]);
    }
  });
}

// The columns of this rank that are tokens. A target outside them has index -1.
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
  const float* mask = dense<float>(op.mask);
  float* largest = dense<float>(op.statistics);
  float* sum = largest + count;
  float* at_target = sum + count;
  const Blocks blocks = row_blocks(count, op.logits.shape[1]);
  parallel_for(device.threads, blocks.count(), [&](std::int64_t block) HWY_ATTR {
    for (std::int64_t r = blocks.begin(block); r < blocks.end(block); ++r) {
      if (!counts(mask, r)) {
        largest[r] = sum[r] = at_target[r] = 0.0F;
        continue;
      }
      const RowStatistics row = statistics_of(logits[r], tokens.count, nullptr, nullptr);
      const bool none = row.largest == -std::numeric_limits<float>::infinity();
      largest[r] = row.largest;
      sum[r] = none ? 0.0F : static_cast<float>(row.sum);
      const std::int64_t target = tokens.of(targets[r]);
      at_target[r] = target < 0 ? 0.0F : hn::GetLane(load_first(logits[r] + target, 1));
    }
  });
}

// Statistics of a row of the whole vocabulary, from those of its parts.
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
      // The sum becomes NaN for infinity - infinity and for NaN.
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
  const float* mask = dense<float>(op.mask);
  const float seed = op.dlogits ? *dense<float>(op.seed) : 0.0F;
  const Blocks blocks = row_blocks(count, columns);
  parallel_for(device.threads, blocks.count(), [&](std::int64_t block) HWY_ATTR {
    for (std::int64_t r = blocks.begin(block); r < blocks.end(block); ++r) {
      if (!counts(mask, r)) {
        loss[r] = 0.0F;
        if (dlogits.data != nullptr) std::fill_n(dlogits[r], columns, To());
        continue;
      }
      const JoinedRow joined(parts, op.statistics.shape[0], count, r);
      loss[r] =
          static_cast<float>(std::log(joined.row.sum) + joined.row.largest - joined.at_target);
      if (dlogits.data == nullptr) continue;
      row_gradient_or_zero(logits[r], joined.row, static_cast<double>(seed) * mask[r],
                           tokens.of(targets[r]), tokens.count, columns, dlogits[r]);
    }
  });
}

// Calls body(From(), To()) with the types of logits and dlogits: one type, or logits in fp32. Other
// pairs, which ops refuse, would double the time of compiling this file.
template <typename Op, typename Body>
void with_logits(const Op& op, const Body& body) {
  const DType gradient = op.dlogits ? op.dlogits.dtype : op.logits.dtype;
  with_storage(gradient, [&](auto to) HWY_ATTR {
    if (gradient == op.logits.dtype) {
      body(to, to);
    } else if constexpr (!std::is_same_v<decltype(to), float>) {
      body(float(), to);
    }
  });
}

void cross_entropy(const CpuDevice& device, const ops::CrossEntropy& op, float* scratch) {
  with_logits(op, [&](auto from, auto to)
                      HWY_ATTR { rows<decltype(from), decltype(to)>(device, op, scratch); });
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

// Checks the targets of the rows that count.
void expect_tokens(const Tensor& targets, const Tensor& mask, std::int64_t vocabulary) {
  const auto* target_of = dense<std::int32_t>(targets);
  const float* factor_of = dense<float>(mask);
  for (std::int64_t r = 0; r < targets.count(); ++r) {
    const std::int32_t target = target_of[r];
    const bool ignored = factor_of != nullptr && factor_of[r] == 0.0F;
    if (!ignored) ops::expect_in_range<ops::CrossEntropy>(r, target, vocabulary);
  }
}

}  // namespace

std::int64_t workspace_bytes_of(const CpuDevice& device, const ops::CrossEntropy& op) {
  return HWY_NAMESPACE::RowScratch(op).size * device.threads * size_of(DType::kF32);
}

void execute(CpuDevice& device, const ops::CrossEntropy& op, const Tensor& scratch) {
  expect_tokens(op.targets, op.mask, op.vocabulary);
  HWY_DYNAMIC_DISPATCH(cross_entropy)(device, op, reinterpret_cast<float*>(scratch.data()));
}

void execute(CpuDevice& device, const ops::CrossEntropyStatistics& op, const Tensor& /*scratch*/) {
  expect_tokens(op.targets, op.mask, op.vocabulary);
  HWY_DYNAMIC_DISPATCH(cross_entropy_statistics)(device, op);
}

void execute(CpuDevice& device, const ops::VocabularyParallelCrossEntropy& op,
             const Tensor& /*scratch*/) {
  expect_tokens(op.targets, op.mask, op.vocabulary);
  HWY_DYNAMIC_DISPATCH(vocabulary_parallel_cross_entropy)(device, op);
}

void execute(CpuDevice& /*device*/, const ops::LabelMask& op, const Tensor& /*scratch*/) {
  const auto labels = op.labels.span<std::int32_t>();
  float* mask = dense<float>(op.mask);
  for (std::size_t r = 0; r < labels.size(); ++r) mask[r] = labels[r] >= 0 ? 1.0F : 0.0F;
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

// Adds in order, so the sum does not depend on how rows are cut into microbatches.
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

}  // namespace phalanx::cpu
#endif  // HWY_ONCE
