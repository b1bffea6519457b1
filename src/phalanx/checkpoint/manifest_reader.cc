#include <fmt/format.h>

#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/file.h"
#include "phalanx/base/hash.h"
#include "phalanx/checkpoint/checked.h"
#include "phalanx/checkpoint/checkpoint_directory.h"
#include "phalanx/checkpoint/input_file.h"
#include "phalanx/checkpoint/manifest_format.h"
#include "phalanx/checkpoint/safetensors.h"
#include "phalanx/checkpoint/seal.h"
#include "phalanx/checkpoint/strict_json.h"

namespace phalanx {
namespace {

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
// A mixture of thousands of experts has some ten MiB; more is an attack on memory.
constexpr std::size_t kLongestManifest = std::size_t{256} << 20;
constexpr std::size_t kLongestText = kLongestManifest;
constexpr std::size_t kDigestDigits = 16;

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

Manifest::Base read_base(JsonObject object) {
  Manifest::Base base;
  base.path = object.text("path", kLongestText);
  if (base.path.empty()) throw DataError("{}: 'path' is empty", object.where());
  base.weights_xxh3 = object.digest("weights_xxh3");
  base.manifest_xxh3 = object.digest("manifest_xxh3");
  object.finish();
  return base;
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

Manifest parse_manifest(std::string_view text, const std::string& path) {
  check_length(std::ssize(text), path);
  const nlohmann::json json = parse_strict_json(text, path);
  JsonObject object(json, path);
  const std::int64_t version = read_version(object);
  check_seal(text, kManifestSealKey, path);
  object.digest(std::string(kManifestSealKey));

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
  if (version > kVersionWithoutBase) manifest.base = read_base(object.object("base"));
  manifest.files = read_list(object, "files", read_file_entry);
  const bool has_parts =
      version == kVersionWithoutBase || (version > kVersionWithoutBase && object.has("parts"));
  if (has_parts) {
    manifest.epoch = object.text("epoch", kLongestText);
    manifest.parts = read_list(object, "parts", read_part);
  }
  manifest.tensors = read_list(object, "tensors", [has_parts](JsonObject item) {
    return read_tensor_entry(std::move(item), has_parts);
  });
  object.finish();
  check_manifest(manifest, has_parts, path);
  return manifest;
}

Manifest read_manifest(const std::filesystem::path& path) {
  // Checked before memory is allocated for it.
  check_length(describe_input_length("", path).bytes, path.string());
  return parse_manifest(read_file(path), path.string());
}

}  // namespace phalanx
