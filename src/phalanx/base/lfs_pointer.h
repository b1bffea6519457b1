#pragma once
// Git LFS pointers: the small texts that stand in a clone for large files that were not fetched.

#include <filesystem>
#include <string_view>

namespace phalanx {

// Whether the text is one.
bool is_lfs_pointer(std::string_view text);

// InputMissingError where the text, that of the file, is one: it says how to fetch the file.
void refuse_lfs_pointer(const std::filesystem::path& path, std::string_view text);
// Likewise of the file as it lies there; what cannot be read is left to whoever reads it.
void refuse_lfs_pointer(const std::filesystem::path& path);

}  // namespace phalanx
