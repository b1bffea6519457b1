#include "phalanx/checkpoint/checkpoint_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/file.h"
#include "phalanx/base/first_few.h"
#include "phalanx/base/hash.h"
#include "phalanx/base/log.h"
#include "phalanx/base/progress.h"
#include "phalanx/checkpoint/checkpoint_directory.h"
#include "phalanx/checkpoint/input_file.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;

fs::path without_trailing_slash(const fs::path& path) {
  return path.has_filename() ? path : path.parent_path();
}

// Warns if the tracker does not name the latest checkpoint.
void compare_with_tracker(const fs::path& save, const SavedCheckpoint& taken) {
  try {
    const auto tracked = read_tracker(save);
    if (!tracked || *tracked == taken.iteration) return;
    log_warning("{} says {}; it is only a hint, the latest checkpoint is {}",
                (save / kTrackerName).string(), *tracked, taken.directory.string());
  } catch (const Error& error) {
    log_warning("{}; it is only a hint, the latest checkpoint is {}", error.what(),
                taken.directory.string());
  }
}

// A folder of transformers: a config.json that says which model it is. A user who names one as a
// checkpoint means its weights, so a run must not begin without them.
void refuse_hugging_face_folder(const fs::path& directory) {
  constexpr std::uintmax_t kLongestConfig = std::uintmax_t{16} << 20;
  const fs::path config = directory / "config.json";
  std::error_code error;
  if (!fs::is_regular_file(config, error) || fs::file_size(config, error) > kLongestConfig) return;
  const std::string text = read_file(config);
  if (text.find("\"model_type\"") == std::string::npos &&
      text.find("\"architectures\"") == std::string::npos) {
    return;
  }
  throw InputMissingError(
      "{}: no checkpoint, but a folder of Hugging Face's (it has a config.json): make a checkpoint "
      "of it with phalanx import hf --input {} --output NEW, and name that",
      directory.string(), directory.string());
}

bool means_another_checkpoint_may_do(const Error& error) {
  return error.code() == ErrorCode::kBadData || error.code() == ErrorCode::kInputMissing ||
         error.code() == ErrorCode::kIo;
}

}  // namespace

std::optional<CheckpointReader> CheckpointReader::open_if_any(const fs::path& directory,
                                                              Verify verify) {
  const fs::path save = without_trailing_slash(directory);
  std::error_code error;
  const std::string name = save.filename().string();
  if (iteration_of_directory_name(name) || iteration_of_aside_name(name) ||
      fs::exists(save / kManifestName, error)) {
    return CheckpointReader(save, verify);
  }
  const SaveContents contents = save_contents(save);
  if (contents.complete.empty() && contents.broken.empty()) {
    if (const auto tracked = read_tracker(save)) {
      throw DataError("{} says {}, but no checkpoint of Phalanx is there",
                      (save / kTrackerName).string(), *tracked);
    }
    refuse_hugging_face_folder(save);
    return std::nullopt;
  }
  const std::int64_t latest = contents.complete.empty() ? -1 : contents.complete.back().iteration;
  std::vector<std::string> failures;
  for (const auto& broken : contents.broken) {
    if (broken.newer_format) throw ConfigError("{}", broken.reason);
    if (broken.iteration > latest) failures.push_back(broken.reason);
  }
  for (auto candidate = contents.complete.rbegin(); candidate != contents.complete.rend();
       ++candidate) {
    try {
      CheckpointReader reader(candidate->directory, verify);
      const std::size_t named = std::min(failures.size(), kNamedInMessages);
      for (std::size_t i = 0; i < named; ++i) {
        log_warning("{}; taking {}", failures[i], reader.directory().string());
      }
      if (failures.size() > named) {
        log_warning("{}: {} more checkpoints cannot be read", save.string(),
                    failures.size() - named);
      }
      if (failures.empty()) compare_with_tracker(save, *candidate);
      return reader;
    } catch (const Error& failure) {
      if (!means_another_checkpoint_may_do(failure)) throw;
      failures.emplace_back(failure.what());
    }
  }
  throw DataError("{}; no older checkpoint in {} can be read", first_few(failures, "; "),
                  save.string());
}

CheckpointReader CheckpointReader::open(const fs::path& directory, Verify verify) {
  auto reader = open_if_any(directory, verify);
  if (!reader) {
    throw InputMissingError("{}: no checkpoint: neither {} nor {} is there", directory.string(),
                            iteration_directory_name(1), kManifestName);
  }
  return std::move(*reader);
}

CheckpointReader::CheckpointReader(const fs::path& directory, Verify verify)
    : directory_(without_trailing_slash(directory)),
      verify_(verify),
      manifest_(read_manifest_of(directory_)) {
  for (std::size_t i = 0; i < manifest_.tensors.size(); ++i) {
    index_[manifest_.tensors[i].name] = i;
  }
  for (const auto& file : manifest_.files) {
    if (wants(file.name)) open_file(file);
  }
  for (const auto& entry : manifest_.tensors) {
    if (wants(entry.file)) check_entry(entry);
  }
  for (const auto& [name, file] : files_) {
    for (const auto& stored : file.entries()) {
      const auto* entry = find(stored.name);
      if (entry == nullptr || entry->file != name) {
        throw DataError("{}: tensor {} is not in the manifest", file.path().string(), stored.name);
      }
    }
  }
  // Last, because it reads all files: cheap checks come first.
  for (const auto& file : manifest_.files) {
    if (verify_ != Verify::kNo && wants(file.name)) compare_digest(file);
  }
}

bool CheckpointReader::wants(std::string_view file_name) const {
  return verify_ != Verify::kWeights || file_name != kOptimizerFileName;
}

void CheckpointReader::open_file(const Manifest::File& file) {
  const fs::path path = directory_ / file.name;
  const std::int64_t bytes = describe_input_length("", path).bytes;
  if (bytes != file.bytes) {
    throw DataError("{}: has {} bytes, the manifest says {}", path.string(), bytes, file.bytes);
  }
  if (!is_copy_name(file.name)) files_.emplace(file.name, SafetensorsFile(path));
}

void CheckpointReader::compare_digest(const Manifest::File& file) const {
  const fs::path path = directory_ / file.name;
  const auto opened = files_.find(file.name);
  if (opened == files_.end()) {
    if (digest_file(path).xxh3 == file.xxh3) return;
    throw DataError("{}: damaged: its digest is not the manifest's", path.string());
  }
  const FileAccess access("reading", path);
  if (xxh3(opened->second.all_bytes()) == file.xxh3) return;
  // A second pass finds the place.
  for (const auto& entry : manifest_.tensors) {
    if (entry.file == file.name) compare_digest(entry);
  }
  throw DataError("{}: damaged: its digest is not the manifest's", path.string());
}

void CheckpointReader::compare_digest(const Manifest::Entry& entry) const {
  const std::uint64_t digest = xxh3(bytes(entry));
  if (digest == entry.xxh3) return;
  throw DataError("{}: tensor {} is damaged: its digest is {}, the manifest says {}",
                  (directory_ / entry.file).string(), entry.name, digest_to_text(digest),
                  digest_to_text(entry.xxh3));
}

void CheckpointReader::check_entry(const Manifest::Entry& entry) const {
  const SafetensorsFile& file = opened(entry.file);
  const auto* stored = file.find(entry.name);
  if (stored == nullptr) {
    throw DataError("{}: tensor {} of the manifest is missing", file.path().string(), entry.name);
  }
  if (stored->dtype != entry.dtype || stored->shape != entry.shape) {
    throw DataError("{}: tensor {} is {} {}, the manifest says {} {}", file.path().string(),
                    entry.name, stored->type, stored->shape.to_string(), name_of(entry.dtype),
                    entry.shape.to_string());
  }
}

bool CheckpointReader::has_optimizer() const {
  return std::ranges::any_of(manifest_.files,
                             [](const auto& file) { return file.name == kOptimizerFileName; });
}

const Manifest::Entry* CheckpointReader::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &manifest_.tensors[found->second];
}

const SafetensorsFile& CheckpointReader::opened(std::string_view file_name) const {
  const auto found = files_.find(file_name);
  PHALANX_CHECK(found != files_.end(), "{}: {} is not open", directory_.string(), file_name);
  return found->second;
}

std::span<const std::byte> CheckpointReader::bytes(const Manifest::Entry& entry) const {
  const SafetensorsFile& file = opened(entry.file);
  return file.bytes(*file.find(entry.name));
}

void CheckpointReader::read(const GlobalTensor& target, DTypeMatch match) const {
  const auto* entry = find(target.name);
  if (entry == nullptr) {
    throw ConfigError("{}: has no tensor {}, which the model asks for", directory_.string(),
                      target.name);
  }
  if (entry->shape != target.global_shape) {
    throw ConfigError("{}: tensor {} is {}, the model asks for {}", directory_.string(),
                      target.name, entry->shape.to_string(), target.global_shape.to_string());
  }
  const DType local = target.local.dtype;
  const bool converts =
      match == DTypeMatch::kConvert && is_floating(entry->dtype) && is_floating(local);
  if (entry->dtype != local && !converts) {
    throw ConfigError("{}: tensor {} is {}, the model asks for {}", directory_.string(),
                      target.name, name_of(entry->dtype), name_of(local));
  }
  check_boxes(target, Coverage::kPartial);
  FileAccess access("reading", directory_ / entry->file);
  fill_from_global_bytes(target, entry->dtype, bytes(*entry));
  access.moved(target.local.bytes());
}

std::optional<fs::path> CheckpointReader::copy_of(std::string_view flag) const {
  for (const auto& file : manifest_.input_files) {
    if (file.flag == flag && !file.copy.empty()) return directory_ / file.copy;
  }
  return std::nullopt;
}

void CheckpointReader::verify_all() const {
  for (const auto& file : manifest_.files) compare_digest(file);
  for (const auto& entry : manifest_.tensors) {
    if (wants(entry.file)) compare_digest(entry);
  }
}

std::string no_checkpoint_message(const fs::path& directory) {
  return fmt::format("{}: has no checkpoint: none is loaded, the run starts from random",
                     directory.string());
}

}  // namespace phalanx
