#pragma once
// Git LFS pointers: small texts that a clone has in place of large files that were not fetched.

#include <filesystem>
#include <string_view>

namespace phalanx {

// Whether the text is a pointer.
bool is_lfs_pointer(std::string_view text);

// InputMissingError, with how to fetch the file, where `text`, the file's content, is a pointer.
void refuse_lfs_pointer(const std::filesystem::path& path, std::string_view text);
// The same, reading the file. A file that cannot be read passes.
void refuse_lfs_pointer(const std::filesystem::path& path);

}  // namespace phalanx
