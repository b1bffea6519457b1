#pragma once
// Batches of random tokens, the same for a sample whoever asks.

#include <cstdint>
#include <span>
#include <vector>

#include "phalanx/data/host_batch.h"
#include "phalanx/model/model.h"

namespace phalanx::bench {

// Of any family's schema, without padding. Of a BERT's rows 15 % count, of others all.
HostBatch random_batch(const BatchSchema& schema, std::int64_t first_sample, std::int64_t samples,
                       std::int64_t vocabulary);

// What each loss of a model counts in these batches.
std::vector<double> loss_counts(const Model& model, std::span<const HostBatch> batches);

}  // namespace phalanx::bench
