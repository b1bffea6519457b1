#pragma once
// How files of a folder are made, and whether they can be read and written past the page cache.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

#include "phalanx/base/file_descriptor.h"
#include "phalanx/disk/storage_options.h"

namespace phalanx {

struct DiskAccess {
  bool direct = false;  // past the page cache
  // Of memory that moves directly.
  std::int64_t memory_alignment = kStorageAlignment;
  std::string reason = {};  // why not direct

  // "past the page cache".
  std::string description() const;
};

// Tries it with the file `probe`, which must not exist and is gone afterwards.
DiskAccess access_of(const std::filesystem::path& probe, bool wants_direct);

// Makes a file that must not exist, to be read and written as `access` says. OutputError.
FileDescriptor make_file(const std::filesystem::path& path, const DiskAccess& access,
                         unsigned permissions = 0600);

// Makes the file `bytes` long and reserves its space, so that later the disk cannot be too full for
// it. Where a file system reserves none, a warning says so, if it is wanted. 0, or the errno:
// ENOSPC on a full disk.
int reserve_space(const std::filesystem::path& path, int descriptor, std::int64_t bytes,
                  bool warns = true);

// The first byte from `memory` on at a multiple of kStorageAlignment.
std::byte* aligned(std::byte* memory);

}  // namespace phalanx
