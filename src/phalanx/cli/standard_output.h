#pragma once
// Standard output, for the results of a command: all of them arrive, or the command fails.

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace phalanx {

// Prints a document on a line of its own. Bytes that are not UTF-8 (a command line may have such)
// are replaced.
std::string json_line(const nlohmann::ordered_json& json);

// Writes the text at once, for readers of a pipe. OutputError if it cannot be written.
void write_standard_output(std::string_view text);
// Writes at once what was printed so far; same error.
void flush_standard_output();

// Runs a command, which may print with fmt::print(), and writes what it left in the buffer. Returns
// its status; OutputError if anything could not be written. If the reader of a pipe has gone, that
// is not an error: the status is that of a process that SIGPIPE ended, for callers that ignore the
// signal.
int with_checked_output(const std::function<int()>& command);

}  // namespace phalanx
