#pragma once
// How far a rank reads its data ahead, and what that takes.

#include <cstdint>

#include "phalanx/base/batch_schema.h"
#include "phalanx/data/loader.h"
#include "phalanx/settings/train_config.h"

namespace phalanx {

// Training data: the largest global batch. Evaluation data: as many microbatches as keep the
// threads busy.
BatchLoaderOptions reading_ahead(const TrainConfig& config, bool trains);

// The most memory that a reading rank takes for it outside its arenas: one loader each for
// training, validation and test.
std::int64_t bytes_read_ahead(const TrainConfig& config, const BatchSchema& schema);

}  // namespace phalanx
