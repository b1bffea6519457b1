#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "phalanx/base/error.h"
#include "phalanx/checkpoint/checkpoint_directory.h"
#include "phalanx/checkpoint/input_file.h"
#include "phalanx/checkpoint/manifest_format.h"
#include "phalanx/checkpoint/part_index.h"
#include "phalanx/checkpoint/strict_json.h"

namespace phalanx {
namespace {

constexpr std::size_t kRunIdDigits = 32;
constexpr std::string_view kHexadecimal = "0123456789abcdef";

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

}  // namespace

void check_manifest(const Manifest& manifest, bool has_parts, const std::string& path) {
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
  constexpr std::array<std::string_view, 5> kPrecisions = {"auto", "fp32", "bf16", "amx", "amx2"};
  if (std::ranges::find(kPrecisions, manifest.matmul_precision) == kPrecisions.end() &&
      !manifest.matmul_precision.starts_with("cuda-")) {
    throw DataError("{}: 'matmul_precision' must be auto, fp32, bf16, amx, amx2 or cuda-...", path);
  }
}

}  // namespace phalanx
