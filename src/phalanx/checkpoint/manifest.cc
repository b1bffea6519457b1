#include "phalanx/checkpoint/manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/file.h"
#include "phalanx/base/hash.h"
#include "phalanx/checkpoint/checked.h"
#include "phalanx/checkpoint/checkpoint_directory.h"
#include "phalanx/checkpoint/input_file.h"
#include "phalanx/checkpoint/part_index.h"
#include "phalanx/checkpoint/safetensors.h"
#include "phalanx/checkpoint/seal.h"
#include "phalanx/checkpoint/strict_json.h"

namespace phalanx {
namespace {

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
// A mixture of thousands of experts has some ten MiB; more is an attack on memory.
constexpr std::size_t kLongestManifest = std::size_t{256} << 20;
constexpr std::size_t kLongestText = kLongestManifest;
constexpr std::size_t kRunIdDigits = 32;
constexpr std::size_t kDigestDigits = 16;
// The version that is written if nothing needs a newer one.
constexpr std::int64_t kVersionWithoutBlocks = 2;
constexpr std::int64_t kVersionWithoutParts = 3;
constexpr std::string_view kHexadecimal = "0123456789abcdef";
constexpr std::string_view kSealKey = "manifest_xxh3";

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

Manifest::Optimizer read_optimizer(JsonObject object) {
  Manifest::Optimizer state;
  state.adam_step = object.integer("adam_step", 0, kMax);
  state.loss_scale = object.number("loss_scale");
  if (state.loss_scale <= 0) throw DataError("{}: 'loss_scale' must be positive", object.where());
  state.clean_steps = object.integer("clean_steps", 0, kMax);
  state.hysteresis = object.integer("hysteresis", std::numeric_limits<std::int64_t>::min(), kMax);
  state.schedule_steps = object.integer("schedule_steps", 0, kMax);
  object.finish();
  return state;
}

Manifest::SampleCounts read_sample_counts(JsonObject object) {
  Manifest::SampleCounts counts;
  counts.train = object.integer("train", 0, kMax);
  counts.valid = object.integer("valid", 0, kMax);
  counts.test = object.integer("test", 0, kMax);
  object.finish();
  return counts;
}

std::map<std::string, std::string> read_arguments(const nlohmann::json& json, JsonObject object) {
  std::map<std::string, std::string> arguments;
  for (const auto& item : json.items()) {
    arguments[item.key()] = object.text(item.key(), kLongestText);
  }
  return arguments;
}

Manifest::InputFile read_input_file(JsonObject object, std::int64_t version) {
  Manifest::InputFile file;
  file.flag = object.text("flag", kLongestText);
  file.path = object.text("path", kLongestText);
  file.bytes = object.integer("bytes", 0, kMax);
  file.xxh3 = version == 1 ? object.digest("xxh3") : object.digest_or_null("xxh3");
  if (version > 1) file.copy = object.text("copy", kLongestText);
  object.finish();
  return file;
}

Manifest::DataBlocks read_data_blocks(JsonObject object) {
  Manifest::DataBlocks blocks;
  blocks.flag = object.text("flag", kLongestText);
  blocks.path = object.text("path", kLongestText);
  blocks.bytes = object.integer("bytes", 0, kMax);
  blocks.block_bytes = object.integer("block_bytes", 1, kMax);
  // One string, because a list of thousands would be most of the manifest.
  const std::string digests = object.text("xxh3", kLongestText);
  const std::size_t count = digests.size() / kDigestDigits;
  const std::int64_t most =
      blocks.bytes / blocks.block_bytes + (blocks.bytes % blocks.block_bytes != 0 ? 1 : 0);
  if (digests.size() % kDigestDigits != 0 || count > static_cast<std::size_t>(most)) {
    throw DataError("{}: 'xxh3' has {} digits, not {} for each of at most {} blocks",
                    object.where(), digests.size(), kDigestDigits, most);
  }
  for (std::size_t i = 0; i < count; ++i) {
    const auto digest =
        digest_from_text(std::string_view(digests).substr(i * kDigestDigits, kDigestDigits));
    if (!digest) {
      throw DataError("{}: 'xxh3' of block {} is not hexadecimal", object.where(), i);
    }
    blocks.xxh3.push_back(*digest);
  }
  object.finish();
  return blocks;
}

std::string data_blocks_to_json(const Manifest::DataBlocks& blocks) {
  std::string digests;
  for (const std::uint64_t digest : blocks.xxh3) digests += digest_to_text(digest);
  return fmt::format(R"({{"flag": {}, "path": {}, "bytes": {}, "block_bytes": {}, "xxh3": "{}"}})",
                     json_string(blocks.flag), json_string(blocks.path), blocks.bytes,
                     blocks.block_bytes, digests);
}

Manifest::File read_file_entry(JsonObject object) {
  Manifest::File file;
  file.name = object.text("name", kLongestText);
  // The name becomes a path: only the names that Phalanx writes are allowed.
  if (file.name != kModelFileName && file.name != kOptimizerFileName && !is_copy_name(file.name)) {
    throw DataError("{}: 'name' must be {}, {} or a plain name, not {}", object.where(),
                    kModelFileName, kOptimizerFileName, json_string(file.name));
  }
  file.bytes = object.integer("bytes", 0, kMax);
  file.xxh3 = object.digest("xxh3");
  object.finish();
  return file;
}

Manifest::Entry read_tensor_entry(JsonObject object, bool has_parts) {
  Manifest::Entry entry;
  entry.name = object.text("name", kLongestText);
  if (!is_tensor_name(entry.name)) {
    throw DataError("{}: 'name' is not a tensor's name", object.where());
  }
  const std::string dtype_name = object.text("dtype", 16);
  const auto dtype = dtype_from_name(dtype_name);
  if (!dtype) {
    throw DataError("{}: 'dtype' {} is unknown", object.where(), json_string(dtype_name));
  }
  entry.dtype = *dtype;
  entry.shape = object.shape("shape");
  if (!checked_bytes(entry.dtype, entry.shape)) {
    throw DataError("{}: 'shape' does not fit in 64 bits", object.where());
  }
  if (!has_parts) {
    entry.file = object.text("file", kLongestText);
    entry.xxh3 = object.digest("xxh3");
  } else if (object.has("rounded_from")) {
    entry.rounded_from = object.text("rounded_from", kLongestText);
  }
  object.finish();
  return entry;
}

Manifest::Part read_part(JsonObject object) {
  Manifest::Part part;
  part.rank = object.integer("rank", 0, kMax);
  part.bytes = object.integer("bytes", 0, kMax);
  part.index_bytes = object.integer("index_bytes", 0, static_cast<std::int64_t>(kLongestManifest));
  part.index_xxh3 = object.digest("index_xxh3");
  object.finish();
  return part;
}

// The objects of a list, each with the place it has in messages.
template <typename Read>
auto read_list(JsonObject& object, const std::string& key, Read read) {
  std::vector<decltype(read(object))> items;
  for (const auto& value : object.array(key)) {
    items.push_back(
        read(JsonObject(value, fmt::format("{}: {}[{}]", object.where(), key, items.size()))));
  }
  return items;
}

void check_run(const Manifest& manifest, const std::string& path) {
  const std::string& id = manifest.run_id;
  if (id.empty() ||
      (id.size() == kRunIdDigits && id.find_first_not_of(kHexadecimal) == std::string::npos)) {
    return;
  }
  throw DataError("{}: 'run_id' must be {} hexadecimal digits or empty, not {}", path, kRunIdDigits,
                  json_string(id));
}

// Whole tensors in files.
void check_files(const Manifest& manifest, const std::set<std::string_view>& files,
                 const std::string& path) {
  if (!files.contains(kModelFileName)) {
    throw DataError("{}: 'files' does not have {}", path, kModelFileName);
  }
  for (const auto& entry : manifest.tensors) {
    if (!files.contains(entry.file) || is_copy_name(entry.file)) {
      throw DataError("{}: the tensor {} is in {}, which 'files' does not have", path, entry.name,
                      json_string(entry.file));
    }
  }
}

void check_parts(const Manifest& manifest, const std::string& path) {
  if (manifest.parts.empty()) throw DataError("{}: 'parts' is empty", path);
  std::set<std::int64_t> ranks;
  for (const auto& part : manifest.parts) {
    if (!ranks.insert(part.rank).second) {
      throw DataError("{}: the part of rank {} comes twice", path, part.rank);
    }
  }
  for (const auto& file : manifest.files) {
    if (is_copy_name(file.name) && !is_part_file_name(file.name)) continue;
    throw DataError("{}: the file {} is no copy of an input file", path, json_string(file.name));
  }
  std::map<std::string_view, const Manifest::Entry*> stored;
  for (const auto& entry : manifest.tensors) {
    if (entry.rounded_from.empty()) stored[entry.name] = &entry;
  }
  for (const auto& entry : manifest.tensors) {
    if (entry.rounded_from.empty()) continue;
    const auto source = stored.find(entry.rounded_from);
    if (source == stored.end() || source->second->shape != entry.shape ||
        !is_floating(source->second->dtype) || !is_floating(entry.dtype)) {
      throw DataError("{}: the tensor {} is rounded from {}, which is no stored tensor like it",
                      path, entry.name, json_string(entry.rounded_from));
    }
  }
}

void check_consistency(const Manifest& manifest, bool has_parts, const std::string& path) {
  check_run(manifest, path);
  std::set<std::string_view> files;
  for (const auto& file : manifest.files) {
    if (!files.insert(file.name).second) {
      throw DataError("{}: the file {} comes twice", path, file.name);
    }
  }
  for (const auto& input : manifest.input_files) {
    if (!input.copy.empty() && (!is_copy_name(input.copy) || !files.contains(input.copy))) {
      throw DataError("{}: the copy of {} is {}, which 'files' does not have", path, input.flag,
                      json_string(input.copy));
    }
  }
  std::set<std::string_view> names;
  for (const auto& entry : manifest.tensors) {
    if (!names.insert(entry.name).second) {
      throw DataError("{}: the tensor {} comes twice", path, entry.name);
    }
  }
  if (has_parts) {
    check_parts(manifest, path);
  } else {
    check_files(manifest, files, path);
  }
  constexpr std::array<std::string_view, 4> kPrecisions = {"auto", "fp32", "bf16", "amx"};
  if (std::ranges::find(kPrecisions, manifest.matmul_precision) == kPrecisions.end()) {
    throw DataError("{}: 'matmul_precision' must be auto, fp32, bf16 or amx", path);
  }
}

void check_length(std::int64_t bytes, const std::string& path) {
  if (bytes > static_cast<std::int64_t>(kLongestManifest)) {
    throw DataError("{}: {} bytes are more than a manifest may have", path, bytes);
  }
}

// Checked first: whether this is a manifest, of a known version.
std::int64_t read_version(JsonObject& object) {
  if (object.text("format", kLongestText) != kManifestFormat) {
    throw DataError("{}: 'format' must be {}", object.where(), kManifestFormat);
  }
  const auto version = object.integer("format_version", 1, kMax);
  if (version > kManifestVersion) {
    throw ConfigError(
        "{}: format version {}; this program reads versions up to {}, a newer one may read it",
        object.where(), version, kManifestVersion);
  }
  return version;
}

}  // namespace

namespace {

std::int64_t version_of(const Manifest& manifest) {
  if (!manifest.parts.empty()) return kManifestVersion;
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
  return text + seal_of(text, kSealKey);
}

std::string seal_manifest(std::string_view text) {
  const std::string_view body = sealed_body(text, kSealKey);
  return std::string(body) + seal_of(body, kSealKey);
}

Manifest parse_manifest(std::string_view text, const std::string& path) {
  check_length(std::ssize(text), path);
  const nlohmann::json json = parse_strict_json(text, path);
  JsonObject object(json, path);
  const std::int64_t version = read_version(object);
  check_seal(text, kSealKey, path);
  object.digest(std::string(kSealKey));

  Manifest manifest;
  manifest.phalanx_version = object.text("phalanx_version", kLongestText);
  if (version > 1) {
    manifest.run_id = object.text("run_id", kLongestText);
    manifest.start = object.integer("start", 0, kMax);
  }
  manifest.iteration = object.integer("iteration", 0, kMax);
  manifest.consumed_train_samples = object.integer("consumed_train_samples", 0, kMax);
  manifest.consumed_valid_samples = object.integer("consumed_valid_samples", 0, kMax);
  manifest.optimizer = read_optimizer(object.object("optimizer"));
  manifest.requested_samples = read_sample_counts(object.object("requested_samples"));
  manifest.matmul_precision = object.text("matmul_precision", kLongestText);
  manifest.threads_per_rank =
      object.integer("threads_per_rank", 0, std::numeric_limits<std::int32_t>::max());
  manifest.seed = object.unsigned_integer("seed");
  JsonObject arguments = object.object("arguments");
  manifest.arguments = read_arguments(json.at("arguments"), std::move(arguments));
  manifest.input_files = read_list(object, "input_files", [version](JsonObject item) {
    return read_input_file(std::move(item), version);
  });
  if (version > kVersionWithoutBlocks && object.has("data_blocks")) {
    manifest.data_blocks = read_list(object, "data_blocks", read_data_blocks);
  }
  manifest.files = read_list(object, "files", read_file_entry);
  const bool has_parts = version > kVersionWithoutParts;
  if (has_parts) {
    manifest.epoch = object.text("epoch", kLongestText);
    manifest.parts = read_list(object, "parts", read_part);
  }
  manifest.tensors = read_list(object, "tensors", [has_parts](JsonObject item) {
    return read_tensor_entry(std::move(item), has_parts);
  });
  object.finish();
  check_consistency(manifest, has_parts, path);
  return manifest;
}

Manifest read_manifest(const std::filesystem::path& path) {
  // Checked before memory is allocated for it.
  check_length(describe_input_length("", path).bytes, path.string());
  return parse_manifest(read_file(path), path.string());
}

}  // namespace phalanx
