#pragma once
// Git LFS pointers: small texts that stand for large files that a clone has not fetched.

#include <filesystem>
#include <string_view>

namespace phalanx {

// Whether the text is a pointer.
bool is_lfs_pointer(std::string_view text);

// If `text`, the file's content, is a pointer: InputMissingError that says how to fetch the file.
void refuse_lfs_pointer(const std::filesystem::path& path, std::string_view text);
// The same for the content of a file; an unreadable file passes.
void refuse_lfs_pointer(const std::filesystem::path& path);

}  // namespace phalanx
