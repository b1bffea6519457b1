#include "phalanx/checkpoint/manifest.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>

#include "phalanx/base/error.h"
#include "phalanx/base/hash.h"
#include "phalanx/checkpoint/manifest_format.h"
#include "phalanx/checkpoint/seal.h"
#include "phalanx/checkpoint/strict_json.h"

namespace phalanx {
namespace {

// Items of a list or object, one a line.
template <typename Items, typename ToText>
std::string lines(const Items& items, ToText to_text) {
  std::string text;
  for (const auto& item : items) {
    text += text.empty() ? "\n    " : ",\n    ";
    text += to_text(item);
  }
  return text.empty() ? text : text + "\n  ";
}

std::string data_blocks_to_json(const Manifest::DataBlocks& blocks) {
  std::string digests;
  for (const std::uint64_t digest : blocks.xxh3) digests += digest_to_text(digest);
  return fmt::format(R"({{"flag": {}, "path": {}, "bytes": {}, "block_bytes": {}, "xxh3": "{}"}})",
                     json_string(blocks.flag), json_string(blocks.path), blocks.bytes,
                     blocks.block_bytes, digests);
}

std::int64_t version_of(const Manifest& manifest) {
  if (manifest.base) return kManifestVersion;
  if (!manifest.parts.empty()) return kVersionWithoutBase;
  return manifest.data_blocks.empty() ? kVersionWithoutBlocks : kVersionWithoutParts;
}

std::string entry_to_json(const Manifest::Entry& entry, bool has_parts) {
  std::string text =
      fmt::format(R"({{"name": {}, "dtype": "{}", "shape": [{}])", json_string(entry.name),
                  name_of(entry.dtype), fmt::join(entry.shape, ", "));
  if (!has_parts) {
    text += fmt::format(R"(, "file": {}, "xxh3": "{}")", json_string(entry.file),
                        digest_to_text(entry.xxh3));
  } else if (!entry.rounded_from.empty()) {
    text += fmt::format(R"(, "rounded_from": {})", json_string(entry.rounded_from));
  }
  return text + "}";
}

}  // namespace

std::string manifest_to_json(const Manifest& manifest) {
  const auto& optimizer = manifest.optimizer;
  PHALANX_CHECK(std::isfinite(optimizer.loss_scale), "loss scale {}", optimizer.loss_scale);
  std::string text;
  const auto out = std::back_inserter(text);
  fmt::format_to(
      out,
      "{{\n  \"format\": \"{}\",\n  \"format_version\": {},\n  \"phalanx_version\": {},\n"
      "  \"run_id\": {},\n  \"start\": {},\n  \"iteration\": {},\n  \"consumed_train_samples\": "
      "{},\n"
      "  \"consumed_valid_samples\": {},\n",
      kManifestFormat, version_of(manifest), json_string(manifest.phalanx_version),
      json_string(manifest.run_id), manifest.start, manifest.iteration,
      manifest.consumed_train_samples, manifest.consumed_valid_samples);
  fmt::format_to(out,
                 "  \"optimizer\": {{\"adam_step\": {}, \"loss_scale\": {}, \"clean_steps\": {}, "
                 "\"hysteresis\": {}, \"schedule_steps\": {}}},\n",
                 optimizer.adam_step, optimizer.loss_scale, optimizer.clean_steps,
                 optimizer.hysteresis, optimizer.schedule_steps);
  fmt::format_to(out, "  \"requested_samples\": {{\"train\": {}, \"valid\": {}, \"test\": {}}},\n",
                 manifest.requested_samples.train, manifest.requested_samples.valid,
                 manifest.requested_samples.test);
  fmt::format_to(out, "  \"matmul_precision\": {},\n  \"threads_per_rank\": {},\n  \"seed\": {},\n",
                 json_string(manifest.matmul_precision), manifest.threads_per_rank, manifest.seed);
  fmt::format_to(out, "  \"arguments\": {{{}}},\n", lines(manifest.arguments, [](const auto& item) {
                   return fmt::format("{}: {}", json_string(item.first), json_string(item.second));
                 }));
  fmt::format_to(
      out, "  \"input_files\": [{}],\n", lines(manifest.input_files, [](const auto& file) {
        return fmt::format(R"({{"flag": {}, "path": {}, "bytes": {}, "xxh3": {}, "copy": {}}})",
                           json_string(file.flag), json_string(file.path), file.bytes,
                           file.xxh3 ? json_string(digest_to_text(*file.xxh3)) : "null",
                           json_string(file.copy));
      }));
  if (!manifest.data_blocks.empty()) {
    fmt::format_to(out, "  \"data_blocks\": [{}],\n",
                   lines(manifest.data_blocks, data_blocks_to_json));
  }
  if (manifest.base) {
    fmt::format_to(out,
                   "  \"base\": {{\"path\": {}, \"weights_xxh3\": \"{}\", \"manifest_xxh3\": "
                   "\"{}\"}},\n",
                   json_string(manifest.base->path), digest_to_text(manifest.base->weights_xxh3),
                   digest_to_text(manifest.base->manifest_xxh3));
  }
  fmt::format_to(out, "  \"files\": [{}],\n", lines(manifest.files, [](const auto& file) {
                   return fmt::format(R"({{"name": {}, "bytes": {}, "xxh3": "{}"}})",
                                      json_string(file.name), file.bytes,
                                      digest_to_text(file.xxh3));
                 }));
  const bool has_parts = !manifest.parts.empty();
  if (has_parts) {
    fmt::format_to(out, "  \"epoch\": {},\n  \"parts\": [{}],\n", json_string(manifest.epoch),
                   lines(manifest.parts, [](const auto& part) {
                     return fmt::format(
                         R"({{"rank": {}, "bytes": {}, "index_bytes": {}, "index_xxh3": "{}"}})",
                         part.rank, part.bytes, part.index_bytes, digest_to_text(part.index_xxh3));
                   }));
  }
  fmt::format_to(out, "  \"tensors\": [{}],", lines(manifest.tensors, [&](const auto& entry) {
                   return entry_to_json(entry, has_parts);
                 }));
  return text + seal_of(text, kManifestSealKey);
}

std::string seal_manifest(std::string_view text) {
  const std::string_view body = sealed_body(text, kManifestSealKey);
  return std::string(body) + seal_of(body, kManifestSealKey);
}

}  // namespace phalanx
