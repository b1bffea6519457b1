#pragma once
// Softmax cross entropy over the vocabulary, fused with its gradient, and the sums of which losses
// are computed.

#include "phalanx/ops/rows.h"

namespace phalanx::ops {

// loss[r] = logsumexp(logits[r]) - logits[r][target[r]] over the first `vocabulary` columns; the
// rest is padding, which counts as -infinity. dlogits[r] = seed * mask[r] * (softmax(logits[r]) -
// onehot(target[r])), 0 in the padding. A row of mask 0 has loss 0 and no gradient, whatever its
// logits and its target are.
struct CrossEntropy {
  Tensor loss;     // [rows], f32
  Tensor dlogits;  // [rows, V], optional (evaluation); may be logits itself when the dtypes agree
  Tensor logits;   // [rows, V], f32 or storage type
  Tensor targets;  // [rows], i32
  Tensor mask;     // [rows], f32: the loss mask; without dlogits optional, then all rows count
  Tensor seed;     // [1], f32 (with dlogits)
  std::int64_t vocabulary = 0;
};

// Vocabulary parallelism, first half: statistics of each row over the columns that this rank has.
// Column c is token first_column + c; those from `vocabulary` on are padding.
struct CrossEntropyStatistics {
  Tensor statistics;  // [3, rows], f32: the largest logit, the sum of exp(logit - largest)
                      // (-infinity and 0 where all columns are padding), the logit of the target (0
                      // where it is another rank's); zeros for a row of mask 0
  Tensor logits;      // [rows, v], f32 or storage type
  Tensor targets;     // [rows], i32
  Tensor mask = {};   // [rows], f32: the loss mask; optional, then all rows count
  std::int64_t first_column = 0;
  std::int64_t vocabulary = 0;  // of all ranks
};

// Second half: CrossEntropy for the columns of this rank, given the statistics of all ranks, which
// are combined in rank order.
struct VocabularyParallelCrossEntropy {
  Tensor loss;        // [rows], f32: the same on all ranks
  Tensor dlogits;     // [rows, v], optional; may be logits itself when the dtypes agree
  Tensor logits;      // [rows, v]
  Tensor statistics;  // [ranks, 3, rows], f32
  Tensor targets;     // [rows], i32
  Tensor mask;        // [rows], f32: as of the statistics; without dlogits optional
  Tensor seed;        // [1], f32 (with dlogits)
  std::int64_t first_column = 0;
  std::int64_t vocabulary = 0;
};

// mask[r] = 1 where labels[r] is a class and 0 where it is negative: no label.
struct LabelMask {
  Tensor mask;    // [rows], f32
  Tensor labels;  // [rows], i32
};

// Where backward starts: seed = loss_scale * factor, or, for a mean per microbatch, loss_scale *
// factor / sum(mask) (0 where the mask is all zero).
struct LossSeed {
  Tensor seed;        // [1], f32
  Tensor loss_scale;  // [1], f32
  Tensor mask;        // [rows], f32, optional
  double factor = 1.0;
};

// sum += sum(loss * mask), count += sum(mask), rows in order.
struct LossAccumulate {
  Tensor sum;    // [1], f64
  Tensor count;  // [1], f64
  Tensor loss;   // [rows], f32
  Tensor mask;   // [rows], f32
};

OpCost cost(const CrossEntropy& op);
OpCost cost(const CrossEntropyStatistics& op);
OpCost cost(const VocabularyParallelCrossEntropy& op);
OpCost cost(const LabelMask& op);
OpCost cost(const LossSeed& op);
OpCost cost(const LossAccumulate& op);

void cross_entropy(Context& context, const CrossEntropy& op);
void cross_entropy_statistics(Context& context, const CrossEntropyStatistics& op);
void vocabulary_parallel_cross_entropy(Context& context, const VocabularyParallelCrossEntropy& op);
void label_mask(Context& context, const LabelMask& op);
void loss_seed(Context& context, const LossSeed& op);
void loss_accumulate(Context& context, const LossAccumulate& op);

}  // namespace phalanx::ops
