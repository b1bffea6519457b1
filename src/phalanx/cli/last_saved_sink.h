#pragma once
// Tells the launcher of this run which checkpoint is the newest in --save (launch/last_saved.h).

#include <filesystem>
#include <memory>

#include "phalanx/metrics/run_sink.h"

namespace phalanx {

// The sink of a run that saves in `save`; null where no launcher asks. UsageError if what the
// environment says is not the descriptor of a file.
std::unique_ptr<RunSink> make_last_saved_sink(const std::filesystem::path& save);

}  // namespace phalanx
