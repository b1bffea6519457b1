#pragma once
// A file read line by line in little memory, however long it is.

#include <filesystem>
#include <functional>
#include <string_view>

namespace phalanx {

// `is_whole` is false for a last line without a newline. Lines are cut at 64 MiB.
using TakeLine = std::function<void(std::string_view line, bool is_whole)>;
// InputMissingError where the file is not there; IoError.
void for_each_line(const std::filesystem::path& path, const TakeLine& take);

}  // namespace phalanx
