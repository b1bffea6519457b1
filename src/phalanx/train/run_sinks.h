#pragma once
// The default sinks of a run: what `phalanx pretrain` prints and writes.

#include "phalanx/metrics/run_sink.h"
#include "phalanx/settings/train_config.h"

namespace phalanx {

// Of a resolved configuration. Nothing is opened yet.
RunSinks default_sinks(const RunConfig& run);

}  // namespace phalanx
