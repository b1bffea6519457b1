#include "phalanx/ops/cuda/column_sums.h"

#include "phalanx/ops/cuda/column_sums-inl.h"
#include "phalanx/ops/cuda/dispatch.h"
#include "phalanx/ops/cuda/scratch.h"

namespace phalanx::cuda {

void column_sums(const CudaContext& context, float* sums, TypedAddress x, std::int64_t rows,
                 std::int64_t columns, std::int64_t stride, bool accumulate) {
  auto* parts = reinterpret_cast<float*>(
      take_scratch(context, "column_sums", column_sums_scratch(rows, columns)));
  with_storage("column_sums", x.type, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    using Parts = ColumnPartsKernel<T, T, false>;
    const bool packed = can_pack(stride, x);
    launch<Parts>(context.queue, {ceil_div(columns, Parts::kColumns), parts_of(rows)},
                  {rows,
                   1,
                   columns,
                   rows_of_part(rows),
                   {stride, 0},
                   {},
                   as<const T>(x),
                   nullptr,
                   nullptr,
                   nullptr,
                   parts,
                   packed});
  });
  launch<JoinPartsKernel>(context.queue, {ceil_div(columns, JoinPartsKernel::kThreads)},
                          {sums, parts, columns, parts_of(rows), columns, accumulate});
}

}  // namespace phalanx::cuda
