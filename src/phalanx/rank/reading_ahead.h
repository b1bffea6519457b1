#pragma once
// How far a rank reads its data ahead, and what that takes.

#include <cstdint>

#include "phalanx/base/batch_schema.h"
#include "phalanx/data/loader.h"
#include "phalanx/settings/train_config.h"

namespace phalanx {

// Of training data the largest global batch; of what is evaluated, whose losses are divided at its
// end, as many microbatches as keep the threads busy.
BatchLoaderOptions reading_ahead(const TrainConfig& config, bool trains);

// The most that a rank which reads takes for it, outside its arenas: of a training, a validation
// and a test loader.
std::int64_t bytes_read_ahead(const TrainConfig& config, const BatchSchema& schema);

}  // namespace phalanx
