#pragma once
// Describes a run that begins as one JSON object, for the report: the machine, the model and its
// layout, the data, the planned memory of every rank and the schedule. docs/report.md lists the
// keys.

#include <string>

#include "phalanx/start/run_setup.h"

namespace phalanx {

// `loading`: how the checkpoint was loaded.
std::string run_facts(const RunSetup& setup, const LoadFacts& loading = {});

}  // namespace phalanx
