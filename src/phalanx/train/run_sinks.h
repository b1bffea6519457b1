#pragma once
// Who is told of a run when nobody asks for anything else: what `phalanx pretrain` shows and keeps.

#include "phalanx/metrics/run_sink.h"
#include "phalanx/settings/train_config.h"

namespace phalanx {

// Of a resolved configuration. Nothing is opened yet.
RunSinks default_sinks(const RunConfig& run);

}  // namespace phalanx
