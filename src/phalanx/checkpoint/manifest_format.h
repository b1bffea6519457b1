#pragma once
// What the writer, the reader and the checks of manifest.h share.

#include <cstdint>
#include <string>
#include <string_view>

#include "phalanx/checkpoint/manifest.h"

namespace phalanx {

// The version that is written if nothing needs a newer one.
inline constexpr std::int64_t kVersionWithoutBlocks = 2;
inline constexpr std::int64_t kVersionWithoutParts = 3;
inline constexpr std::int64_t kVersionWithoutBase = 4;
inline constexpr std::string_view kManifestSealKey = "manifest_xxh3";

// DataError, which names `path` and the field, unless the fields fit together: names come once,
// each tensor has a place, and each copy a file.
void check_manifest(const Manifest& manifest, bool has_parts, const std::string& path);

}  // namespace phalanx
