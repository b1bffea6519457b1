#pragma once
// ops/relative_bias.h on a device.

#include <span>

#include "phalanx/ops/cuda/context.h"

namespace phalanx::cuda {

struct RelativeBiasCall {
  std::int64_t heads = 0;
  std::int64_t queries = 0;
  std::int64_t keys = 0;
  std::int64_t table_heads = 0;  // of the table [buckets, heads of all ranks]
  std::int64_t first_head = 0;
  std::int64_t first_query = 0;
  // The least distance of every bucket of a side, 256 at most, rising; the first is 0.
  std::span<const std::int32_t> bucket_begins;
  bool bidirectional = true;
};

// bias[heads, queries, keys] from the table.
void relative_bias_forward(const CudaContext& context, const RelativeBiasCall& call, float* bias,
                           TypedAddress table);

// dtable += the sums of dbias over the pairs of a bucket, in fp64: for each difference over queries
// in order, then over differences in order; rounded once.
void relative_bias_backward(const CudaContext& context, const RelativeBiasCall& call, float* dtable,
                            const float* dbias);

}  // namespace phalanx::cuda
