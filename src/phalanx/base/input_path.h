#pragma once
// Looks at the path of an input before it is opened: opening a named pipe waits for its
// writer, which may never come.

#include <filesystem>
#include <string>

namespace phalanx {

// Why the path cannot be read as a file: "no such file", "is a named pipe, not a regular file".
// Empty where it can be, or where only opening it will tell.
std::string input_fault(const std::filesystem::path& path);

// Whether something is at the path. InputMissingError, with the system's reason, where that cannot
// be found out: a name that is too long, links in a circle, a directory that may not be searched.
bool path_exists(const std::filesystem::path& path);

}  // namespace phalanx
