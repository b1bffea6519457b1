#pragma once
// Standard output, which has what a command was asked for: all of it arrives, or the command fails.

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace phalanx {

// A document on a line of its own. What is no UTF-8 in it is replaced: words of a command line need
// not be.
std::string json_line(const nlohmann::ordered_json& json);

// At once, for who reads along. OutputError where it cannot be written.
void write_standard_output(std::string_view text);
// Likewise what was printed so far.
void flush_standard_output();

// Runs a command, which may print with fmt::print(), and writes what it left in the buffer. Returns
// its status; OutputError where anything could not be written. Where nobody reads any more that is
// no error: the status is the one of a process that SIGPIPE ends, for callers that ignore it.
int with_checked_output(const std::function<int()>& command);

}  // namespace phalanx
