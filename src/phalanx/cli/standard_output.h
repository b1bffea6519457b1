#pragma once
// Standard output, which has what a command was asked for: all of it arrives, or the command fails.

#include <functional>
#include <string_view>

namespace phalanx {

// At once, for who reads along. OutputError where it cannot be written.
void write_standard_output(std::string_view text);
// Likewise what was printed so far.
void flush_standard_output();

// Runs a command, which may print with fmt::print(), and writes what it left in the buffer. Returns
// its status; OutputError where anything could not be written. Where nobody reads any more that is
// no error: the status is the one of a process that SIGPIPE ends, for callers that ignore it.
int with_checked_output(const std::function<int()>& command);

}  // namespace phalanx
