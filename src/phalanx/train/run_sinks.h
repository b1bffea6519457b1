#pragma once
// The default sinks of a run: what `phalanx pretrain` prints and writes.

#include "phalanx/metrics/run_sink.h"
#include "phalanx/settings/train_config.h"

namespace phalanx {

// Whether the run may draw a progress bar on the terminal, if there is one.
enum class HasTerminal { kNo, kYes };

// Of a resolved configuration. Nothing is opened yet.
RunSinks default_sinks(const RunConfig& run, HasTerminal has_terminal = HasTerminal::kYes);

}  // namespace phalanx
