#include "phalanx/ops/cuda/id_sort.h"

#include <algorithm>
#include <bit>

#include "phalanx/ops/cuda/dispatch.h"
#include "phalanx/ops/cuda/id_sort-inl.h"
#include "phalanx/ops/cuda/scratch.h"

namespace phalanx::cuda {

const std::uint64_t* sort_ids(const CudaContext& context, std::byte* scratch,
                              const std::int32_t* ids, std::int64_t rows, std::int64_t table_rows,
                              std::int64_t first_row) {
  using Sort = SortBlockKernel;
  PHALANX_CHECK(rows < (std::int64_t{1} << 32), "{} rows in a batch", rows);
  auto* keys = reinterpret_cast<std::uint64_t*>(scratch);
  auto* other = reinterpret_cast<std::uint64_t*>(scratch + sort_key_bytes(rows));
  const auto sorted = static_cast<std::int64_t>(
      std::bit_ceil(static_cast<std::uint64_t>(std::min(rows, Sort::kKeys))));
  launch<Sort>(context.queue, {ceil_div(rows, Sort::kKeys)},
               {keys, ids, rows, first_row, table_rows, sorted});
  for (std::int64_t run = Sort::kKeys; run < rows; run *= 2) {
    launch<MergeRunsKernel>(context.queue, {ceil_div(rows, MergeRunsKernel::kThreads)},
                            {other, keys, rows, run});
    std::swap(keys, other);
  }
  return keys;
}

}  // namespace phalanx::cuda
