#pragma once
// What a run is, as it begins: the machine, the model and its layout, the data, the memory planned
// for every rank and the schedule, as one JSON object. docs/report.md says what is in it.

#include <string>

#include "phalanx/start/run_setup.h"

namespace phalanx {

std::string run_facts(const RunSetup& setup);

}  // namespace phalanx
