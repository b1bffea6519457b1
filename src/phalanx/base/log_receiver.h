#pragma once
// The log for a program that calls Phalanx as a library: its lines go to a function of the program.

#include <functional>
#include <string_view>

#include "phalanx/base/log.h"

namespace phalanx {

// Gets a line without its level's word and without a line end.
using LogReceiver = std::function<void(LogLevel level, std::string_view line)>;

// From now on lines go there; empty: to standard error again. It is called by one thread at a time,
// and what it logs itself goes to standard error. Once this returns, the receiver before is not
// called any more.
void set_log_receiver(LogReceiver receiver);

}  // namespace phalanx
