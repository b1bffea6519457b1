#pragma once
// ops/permute.h on a device.

#include "phalanx/ops/cuda/context.h"

namespace phalanx::cuda {

struct PairMaps {
  std::int32_t* offsets = nullptr;      // [experts + 1]
  std::int32_t* pair_of_row = nullptr;  // [rows]
  std::int32_t* row_of_pair = nullptr;  // [pairs]
};
// The experts that have rows, `experts` of `all` from `first` on, and the rows that each has with
// its padding; 0: as many as pairs.
struct SortedExperts {
  std::int64_t first = 0;
  std::int64_t experts = 0;
  std::int64_t all = 0;
  std::int64_t padded = 0;
};
// An expert that does not exist is a fault; its pair counts as dropped.
void sort_pairs(const CudaContext& context, const PairMaps& maps, const std::int32_t* chosen,
                std::int64_t pairs, const SortedExperts& experts);

// Rows, tokens, and the pairs of each token.
struct PermuteShape {
  std::int64_t rows = 0;
  std::int64_t tokens = 0;
  std::int64_t k = 0;
  std::int64_t columns = 0;
};
void permute_rows(const CudaContext& context, const PermuteShape& shape, const TypedRows& to,
                  const TypedRows& from, const std::int32_t* pair_of_row,
                  const float* probabilities);
void unpermute_rows(const CudaContext& context, const PermuteShape& shape, const TypedRows& y,
                    const TypedRows& rows, const std::int32_t* row_of_pair,
                    const float* probabilities);
void pair_dots(const CudaContext& context, const PermuteShape& shape, float* dots,
               const TypedRows& rows, const TypedRows& x, const std::int32_t* row_of_pair);
// to[i] = from[index[i]] of n; 0 for an index outside of m.
void gather_elements(const CudaContext& context, float* to, std::int64_t n, const float* from,
                     std::int64_t m, const std::int32_t* index);

}  // namespace phalanx::cuda
