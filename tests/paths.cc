#include "tests/paths.h"

namespace phalanx {

namespace fs = std::filesystem;

fs::path source_path(const fs::path& name) { return fs::path(PHALANX_SOURCE_DIR) / name; }
fs::path build_path(const fs::path& name) { return fs::path(PHALANX_BUILD_DIR) / name; }
std::string program_path() { return build_path("phalanx").string(); }

}  // namespace phalanx
