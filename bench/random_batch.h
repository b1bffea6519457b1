#pragma once
// Batches of random tokens, the same for a sample whoever asks.

#include <cstdint>

#include "phalanx/data/host_batch.h"

namespace phalanx::bench {

HostBatch random_batch(std::int64_t first_sample, std::int64_t samples, std::int64_t sequence,
                       std::int64_t vocabulary);

}  // namespace phalanx::bench
