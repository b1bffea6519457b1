#pragma once
// Megatron-LM's lines of timers, byte for byte (the format of core 0.8).

#include <span>
#include <string>
#include <string_view>

#include "phalanx/metrics/run_sink.h"

namespace phalanx {

// `option` is --timing-log-option: "minmax", "max" or "all". Ranks on which a timer never ran do
// not count, and a timer that never ran has no row. Empty where there is no row. No newline at the
// end.
std::string format_times(std::string_view option, std::span<const TimerRow> rows);

}  // namespace phalanx
