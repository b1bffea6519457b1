#pragma once
// --check-batches: kernels rely on what a model says of its batches (Model::row_patterns).

#include "phalanx/data/host_batch.h"
#include "phalanx/nn/pass.h"

namespace phalanx {

// DataError that names sample, row and column if a microbatch does not keep to the patterns.
void check_row_patterns(const HostBatch& batch, const nn::RowPatterns& patterns);

}  // namespace phalanx
