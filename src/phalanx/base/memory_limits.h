#pragma once
// The limits by which the system refuses memory to this process, for the messages of its refusals:
// a limit of the shell (ulimit -v) stops a program long before the machine's memory is used up.

#include <exception>
#include <filesystem>
#include <string>

namespace phalanx {

// "ulimit -v is 390.62 MiB, 388.20 MiB of it in use"; empty where none is set. `root` as for
// control_groups().
std::string memory_limits(const std::filesystem::path& root = "/");

// The message of a failed allocation, with the limits.
std::string out_of_memory();

// error.what(); of a failed allocation, which does not say so, out_of_memory().
std::string text_of(const std::exception& error);

}  // namespace phalanx
