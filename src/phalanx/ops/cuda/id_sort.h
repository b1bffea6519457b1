#pragma once
// Sorting rows by id.

#include "phalanx/ops/cuda/context.h"

namespace phalanx::cuda {

// The keys of all rows (id_sort-inl.h), sorted: in one of two places of scratch memory, of
// sort_key_bytes(rows) each. Ids outside of [first_row, first_row + table_rows) come last.
const std::uint64_t* sort_ids(const CudaContext& context, std::byte* scratch,
                              const std::int32_t* ids, std::int64_t rows, std::int64_t table_rows,
                              std::int64_t first_row = 0);

}  // namespace phalanx::cuda
