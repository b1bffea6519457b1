#include "phalanx/checkpoint/seal.h"

#include <fmt/format.h>

#include <algorithm>

#include "phalanx/base/error.h"
#include "phalanx/base/hash.h"

namespace phalanx {

std::string seal_of(std::string_view body, std::string_view key) {
  return fmt::format("\n  \"{}\": \"{}\"\n}}\n", key, digest_to_text(xxh3(body)));
}

std::string_view sealed_body(std::string_view text, std::string_view key) {
  return text.substr(0, text.rfind(fmt::format("\n  \"{}\": ", key)));
}

void check_seal(std::string_view text, std::string_view key, const std::string& path) {
  const std::string_view body = sealed_body(text, key);
  if (body.size() == text.size() || text.substr(body.size()) != seal_of(body, key)) {
    throw DataError("{}: damaged: its digest is not the one of its text", path);
  }
}

}  // namespace phalanx
