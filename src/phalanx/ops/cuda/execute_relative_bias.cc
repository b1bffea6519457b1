#include <vector>

#include "phalanx/ops/cuda/execute.h"
#include "phalanx/ops/cuda/operands.h"
#include "phalanx/ops/cuda/relative_bias.h"

namespace phalanx::cuda {
namespace {

// The least distance of every bucket of a side: distances up to the largest of all are in buckets
// that rise with them.
std::vector<std::int32_t> bucket_begins(const ops::RelativeBuckets& buckets) {
  std::vector<std::int32_t> begins;
  for (std::int64_t bucket = 0; bucket < buckets.of_side(); ++bucket) {
    std::int64_t low = 0;
    std::int64_t high = buckets.max_distance;
    while (low < high) {
      const std::int64_t middle = (low + high) / 2;
      // The key lies in front of the query.
      if (ops::relative_bucket(buckets, -middle) < bucket) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    begins.push_back(static_cast<std::int32_t>(low));
  }
  return begins;
}

template <typename Op>
RelativeBiasCall call_of(const Op& op, const Tensor& table, const Tensor& bias,
                         const std::vector<std::int32_t>& begins) {
  return {.heads = bias.shape[0],
          .queries = bias.shape[1],
          .keys = bias.shape[2],
          .table_heads = table.shape[1],
          .first_head = op.first_head,
          .first_query = op.first_query,
          .bucket_begins = begins,
          .bidirectional = op.buckets.bidirectional};
}

}  // namespace

void execute(const CudaContext& context, const ops::RelativeBiasForward& op) {
  const std::vector<std::int32_t> begins = bucket_begins(op.buckets);
  relative_bias_forward(context, call_of(op, op.table, op.bias, begins), address_as<float>(op.bias),
                        address_of(op.table));
}

void execute(const CudaContext& context, const ops::RelativeBiasBackward& op) {
  const std::vector<std::int32_t> begins = bucket_begins(op.buckets);
  relative_bias_backward(context, call_of(op, op.dtable, op.dbias, begins),
                         address_as<float>(op.dtable), address_as<float>(op.dbias));
}

}  // namespace phalanx::cuda
