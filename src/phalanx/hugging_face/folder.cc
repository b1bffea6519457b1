#include "phalanx/hugging_face/folder.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/file.h"
#include "phalanx/base/log.h"
#include "phalanx/checkpoint/strict_json.h"

namespace phalanx::hugging_face {
namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t kLongestIndex = std::uintmax_t{64} << 20;
constexpr std::size_t kMostFiles = 10000;
constexpr std::size_t kLongestFileName = 255;

// Files that hold weights in a form that runs code when it is read.
bool is_pickle(const fs::path& path) {
  constexpr std::array<std::string_view, 4> kExtensions = {".bin", ".pt", ".pth", ".ckpt"};
  const std::string name = path.filename().string();
  if (name == "training_args.bin") return false;
  return std::ranges::find(kExtensions, path.extension().string()) != kExtensions.end();
}

[[noreturn]] void refuse_pickle(const fs::path& path) {
  throw InputMissingError(
      "{}: a pickle, which may run any code when it is read; safetensors files are read instead: "
      "write the model with transformers' save_pretrained(), or turn this file into {} with "
      "tools/convert-pickle",
      path.string(), kWeightsName);
}

[[noreturn]] void refuse_without_weights(const fs::path& directory) {
  std::set<fs::path> pickles;
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    if (is_pickle(entry->path())) pickles.insert(entry->path());
  }
  if (!pickles.empty()) refuse_pickle(*pickles.begin());
  throw InputMissingError("{}: has no {} and no {}", directory.string(), kWeightsName, kIndexName);
}

// A name of a file in the folder itself.
bool is_plain_name(std::string_view name) {
  return !name.empty() && name.size() <= kLongestFileName && name != "." && name != ".." &&
         std::ranges::all_of(name, [](char c) { return c >= 0x20 && c != 0x7f && c != '/'; });
}

std::map<std::string, std::string> read_weight_map(const nlohmann::json& json,
                                                   const std::string& where) {
  const auto map = json.find("weight_map");
  if (map == json.end() || !map->is_object()) {
    throw DataError("{}: 'weight_map' is missing or no object", where);
  }
  std::map<std::string, std::string> files;
  for (const auto& item : map->items()) {
    if (!item.value().is_string() || !is_plain_name(item.value().get_ref<const std::string&>())) {
      throw DataError("{}: tensor {}: {} is not the name of a file of this folder", where,
                      json_string(item.key()),
                      item.value().dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    }
    files.emplace(item.key(), item.value().get<std::string>());
  }
  if (files.empty()) throw DataError("{}: 'weight_map' has no tensors", where);
  return files;
}

// A wrong total is only a warning, because nothing is computed with it.
void check_total(const nlohmann::json& json, std::int64_t bytes, const std::string& where) {
  const auto metadata = json.find("metadata");
  if (metadata == json.end() || !metadata->is_object()) return;
  const auto total = metadata->find("total_size");
  if (total == metadata->end()) return;
  if (total->is_number() && total->get<double>() == static_cast<double>(bytes)) return;
  log_warning("{}: 'total_size' is {}, but the tensors have {} bytes", where, total->dump(), bytes);
}

}  // namespace

bool FolderTensor::is_equal(const FolderTensor& other) const {
  const auto mine = bytes();
  const auto theirs = other.bytes();
  // memcmp, because the tensors may have gigabytes and std::equal compares byte by byte.
  return entry->type == other.entry->type && entry->shape == other.entry->shape &&
         (mine.empty() || std::memcmp(mine.data(), theirs.data(), mine.size()) == 0);
}

Folder::Folder(fs::path directory) : directory_(std::move(directory)) {
  std::error_code error;
  const auto status = fs::status(directory_, error);
  if (!fs::exists(status)) throw InputMissingError("{}: no such folder", directory_.string());
  if (!fs::is_directory(status)) {
    if (is_pickle(directory_)) refuse_pickle(directory_);
    throw InputMissingError("{}: not a folder: name the one that has config.json",
                            directory_.string());
  }
  config_.emplace(directory_ / kConfigName);
  const fs::path generation = directory_ / kGenerationName;
  if (fs::exists(generation, error)) read_generation(generation);
  open_weights();
}

// transformers goes on without a file that it cannot read, and takes config.json's token ids.
void Folder::read_generation(const fs::path& path) {
  try {
    generation_.emplace(path);
  } catch (const DataError& error) {
    log_warning("{}: what it says is not taken: config.json's token ids count", error.what());
  }
}

void Folder::open_weights() {
  std::error_code error;
  const fs::path single = directory_ / kWeightsName;
  const fs::path index = directory_ / kIndexName;
  if (fs::exists(single, error)) {
    files_.push_back(std::make_unique<MappedSafetensors>(single));
    for (const auto& entry : files_.back()->entries()) {
      tensors_[entry.name] = {.file = files_.back().get(), .entry = &entry};
    }
  } else if (fs::exists(index, error)) {
    open_index(index);
  } else {
    refuse_without_weights(directory_);
  }
}

void Folder::open_index(const fs::path& path) {
  const std::string where = path.string();
  std::error_code error;
  if (const auto bytes = fs::file_size(path, error); !error && bytes > kLongestIndex) {
    throw DataError("{}: {} bytes are more than the limit of {}", where, bytes, kLongestIndex);
  }
  const nlohmann::json json = parse_python_json(read_file(path), where);
  if (!json.is_object()) throw DataError("{}: not a JSON object", where);
  const auto files = read_weight_map(json, where);
  std::set<std::string> names;
  for (const auto& [tensor, file] : files) names.insert(file);
  if (names.size() > kMostFiles) {
    throw DataError("{}: names {} files, more than {}", where, names.size(), kMostFiles);
  }
  std::int64_t total = 0;
  for (const std::string& name : names) {
    files_.push_back(std::make_unique<MappedSafetensors>(directory_ / name));
    const MappedSafetensors& file = *files_.back();
    for (const auto& entry : file.entries()) {
      const auto mapped = files.find(entry.name);
      if (mapped == files.end()) {
        throw DataError("{}: tensor {} of {} is not in 'weight_map'", where, entry.name, name);
      }
      if (mapped->second != name) {
        throw DataError("{}: tensor {} is in {} and, as 'weight_map' says, in {}", where,
                        entry.name, name, mapped->second);
      }
      tensors_[entry.name] = {.file = &file, .entry = &entry};
      total += entry.bytes;
    }
  }
  for (const auto& [tensor, file] : files) {
    if (tensors_.contains(tensor)) continue;
    throw DataError("{}: tensor {} is not in {}, where 'weight_map' has it", where,
                    json_string(tensor), file);
  }
  check_total(json, total, where);
}

}  // namespace phalanx::hugging_face
