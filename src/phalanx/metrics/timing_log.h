#pragma once
// What Megatron-LM prints of its timers, byte for byte (the format of core 0.8).

#include <span>
#include <string>
#include <string_view>

#include "phalanx/metrics/run_sink.h"

namespace phalanx {

// The rows as --timing-log-option says: "minmax", "max" or "all". Ranks on which a timer never ran
// do not count; a timer that ran nowhere has no row. Empty where there is no row. No newline at the
// end.
std::string format_times(std::string_view option, std::span<const TimerRow> rows);

}  // namespace phalanx
