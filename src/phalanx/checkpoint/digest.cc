#include "phalanx/checkpoint/digest.h"

#include <fmt/format.h>

#include "phalanx/base/hash.h"
#include "phalanx/checkpoint/strict_json.h"

namespace phalanx {

CheckpointDigest digest_checkpoint(const CheckpointReader& reader) {
  CheckpointDigest digest{.iteration = reader.manifest().iteration, .tensors = {}};
  for (const auto& entry : reader.manifest().tensors) {
    Xxh3 hash;
    reader.visit(entry, [&](std::span<const std::byte> bytes) { hash.update(bytes); });
    digest.tensors.push_back(
        {.name = entry.name, .dtype = entry.dtype, .shape = entry.shape, .xxh3 = hash.digest()});
  }
  return digest;
}

std::string to_json(const CheckpointDigest& digest) {
  std::string text = fmt::format("{{\"iteration\": {}, \"tensors\": {{", digest.iteration);
  bool first = true;
  for (const auto& entry : digest.tensors) {
    text += fmt::format("{}\n  {}: {{\"dtype\": \"{}\", \"shape\": [{}], \"xxh3\": \"{}\"}}",
                        first ? "" : ",", json_string(entry.name), name_of(entry.dtype),
                        fmt::join(entry.shape, ", "), digest_to_text(entry.xxh3));
    first = false;
  }
  return text + "}}\n";
}

std::string to_text(const CheckpointDigest& digest) {
  std::string text = fmt::format("iteration {}\n", digest.iteration);
  for (const auto& entry : digest.tensors) {
    text += fmt::format("{}  {:<4}  {}  {}\n", digest_to_text(entry.xxh3), name_of(entry.dtype),
                        entry.name, entry.shape.to_string());
  }
  return text;
}

}  // namespace phalanx
