#pragma once
// Batches as functions of the samples' numbers, for every model family: lengths, masks and what is
// masked differ from sample to sample.

#include <cstdint>

#include "phalanx/data/host_batch.h"
#include "phalanx/settings/train_config.h"

namespace phalanx {

// A microbatch of the family's schema that begins with this sample.
HostBatch tiny_batch(const TrainConfig& config, const BatchSchema& schema,
                     std::int64_t first_sample);

// What a rank of a context has of a microbatch.
HostBatch rows_of_rank(const HostBatch& whole, const ContextCut& cut, int rank);

}  // namespace phalanx
