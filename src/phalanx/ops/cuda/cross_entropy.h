#pragma once
// ops/cross_entropy.h on a device.

#include "phalanx/ops/cuda/context.h"

namespace phalanx::cuda {

// What a loss is computed of. The target of a row that counts must be a token of the vocabulary,
// another is a fault; the kernels go on with 0.
struct CrossEntropyCall {
  std::int64_t rows = 0;
  std::int64_t columns = 0;     // of the logits
  std::int64_t vocabulary = 0;  // of all ranks
  std::int64_t first_column = 0;
  TypedRows logits;
  const std::int32_t* targets = nullptr;  // [rows]
  const float* mask = nullptr;            // [rows]; null: all rows count (without dlogits)
  float* loss = nullptr;                  // [rows]
  TypedRows dlogits;                      // absent: no gradient; may be the logits
  const float* seed = nullptr;            // with dlogits
};

// The first column is 0.
void cross_entropy(const CudaContext& context, const CrossEntropyCall& call);

// statistics is [3, rows]. Neither loss nor dlogits nor seed is used.
void cross_entropy_statistics(const CudaContext& context, const CrossEntropyCall& call,
                              float* statistics);
// statistics is [ranks, 3, rows].
void vocabulary_parallel_cross_entropy(const CudaContext& context, const CrossEntropyCall& call,
                                       const float* statistics, std::int64_t ranks);

// mask[r] = 1 where labels[r] is not negative, else 0.
void label_mask(const CudaContext& context, float* mask, const std::int32_t* labels,
                std::int64_t rows);

// seed = loss_scale factor, divided by sum(mask) where there is a mask; 0 where that is 0.
void loss_seed(const CudaContext& context, float* seed, const float* loss_scale, const float* mask,
               std::int64_t rows, double factor);

// sum += loss[r] mask[r], count += mask[r], rows in order.
void loss_accumulate(const CudaContext& context, double* sum, double* count, const float* loss,
                     const float* mask, std::int64_t rows);

}  // namespace phalanx::cuda
