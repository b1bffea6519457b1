#include "phalanx/ops/ref/access.h"
#include "phalanx/ops/ref/execute.h"

namespace phalanx::ref {
namespace {

// Calls visit(head, query, key, bucket).
template <typename Op, typename Visit>
void for_each_pair(const Op& op, const Shape& bias, const Visit& visit) {
  for (std::int64_t h = 0; h < bias[0]; ++h) {
    for (std::int64_t i = 0; i < bias[1]; ++i) {
      for (std::int64_t j = 0; j < bias[2]; ++j) {
        visit(h, i, j, ops::relative_bucket(op.buckets, j - (op.first_query + i)));
      }
    }
  }
}

}  // namespace

void execute(RefDevice& /*device*/, const ops::RelativeBiasForward& op, const Tensor& /*scratch*/) {
  const Array table = read(op.table);
  Array bias(op.bias.shape);
  for_each_pair(op, bias.shape,
                [&](std::int64_t h, std::int64_t i, std::int64_t j, std::int64_t bucket) {
                  bias(h, i, j) = table(bucket, op.first_head + h);
                });
  write(op.bias, bias);
}

void execute(RefDevice& /*device*/, const ops::RelativeBiasBackward& op,
             const Tensor& /*scratch*/) {
  const Array dbias = read(op.dbias);
  Array dtable = read(op.dtable);
  for_each_pair(op, dbias.shape,
                [&](std::int64_t h, std::int64_t i, std::int64_t j, std::int64_t bucket) {
                  dtable(bucket, op.first_head + h) += dbias(h, i, j);
                });
  write(op.dtable, dtable);
}

}  // namespace phalanx::ref
