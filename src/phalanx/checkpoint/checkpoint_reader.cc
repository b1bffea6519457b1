#include "phalanx/checkpoint/checkpoint_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/log.h"
#include "phalanx/checkpoint/checkpoint_directory.h"
#include "phalanx/checkpoint/hash.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;

fs::path without_trailing_slash(const fs::path& path) {
  return path.has_filename() ? path : path.parent_path();
}

// The checkpoints of `save` that may be taken, best first: the tracker's, then the ones before it.
// One after it is of a run that went on from somewhere else.
std::vector<std::int64_t> candidates(const fs::path& save) {
  std::vector<std::int64_t> iterations = saved_iterations(save);
  std::reverse(iterations.begin(), iterations.end());
  std::optional<std::int64_t> tracked;
  try {
    tracked = read_tracker(save);
  } catch (const DataError& error) {
    if (iterations.empty()) throw;
    log_warning("{}; taking the newest checkpoint that can be read", error.what());
    return iterations;
  }
  if (!tracked) return iterations;
  std::erase_if(iterations, [&](std::int64_t iteration) { return iteration >= *tracked; });
  iterations.insert(iterations.begin(), *tracked);
  return iterations;
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
  if (iteration_of_directory_name(save.filename().string()) ||
      fs::exists(save / kManifestName, error)) {
    return CheckpointReader(save, verify);
  }
  if (!fs::exists(save / kTrackerName, error)) return std::nullopt;

  std::optional<Error> first_failure;
  for (const auto iteration : candidates(save)) {
    try {
      CheckpointReader reader(save / iteration_directory_name(iteration), verify);
      if (first_failure) {
        log_warning("{}; taking {}", first_failure->what(), reader.directory().string());
      }
      return reader;
    } catch (const Error& failure) {
      if (!means_another_checkpoint_may_do(failure)) throw;
      if (!first_failure) first_failure = failure;
    }
  }
  throw DataError("{}; no older checkpoint in {} can be read", first_failure->what(),
                  save.string());
}

CheckpointReader CheckpointReader::open(const fs::path& directory, Verify verify) {
  auto reader = open_if_any(directory, verify);
  if (!reader) {
    throw InputMissingError("{}: no checkpoint: neither {} nor {} is there", directory.string(),
                            kTrackerName, kManifestName);
  }
  return std::move(*reader);
}

CheckpointReader::CheckpointReader(const fs::path& directory, Verify verify)
    : directory_(without_trailing_slash(directory)), verify_(verify) {
  std::error_code error;
  if (!fs::is_directory(directory_, error)) {
    throw InputMissingError("{}: no such checkpoint directory", directory_.string());
  }
  const fs::path path = directory_ / kManifestName;
  if (!fs::exists(path, error)) {
    throw DataError("{}: has no {}: not a checkpoint of Phalanx", directory_.string(),
                    kManifestName);
  }
  manifest_ = read_manifest(path);
  const auto named = iteration_of_directory_name(directory_.filename().string());
  if (named && *named != manifest_.iteration) {
    throw DataError("{}: is of iteration {}, not of the directory's", path.string(),
                    manifest_.iteration);
  }
  for (const auto& file : manifest_.files) open_file(file);
  for (std::size_t i = 0; i < manifest_.tensors.size(); ++i) {
    check_entry(manifest_.tensors[i]);
    index_[manifest_.tensors[i].name] = i;
  }
  for (const auto& [name, file] : files_) {
    for (const auto& stored : file.entries()) {
      const auto* entry = find(stored.name);
      if (entry == nullptr || entry->file != name) {
        throw DataError("{}: tensor {} is not in the manifest", file.path().string(), stored.name);
      }
    }
  }
}

void CheckpointReader::open_file(const Manifest::File& file) {
  SafetensorsFile opened(directory_ / file.name);
  if (opened.file_bytes() != file.bytes) {
    throw DataError("{}: has {} bytes, the manifest says {}", opened.path().string(),
                    opened.file_bytes(), file.bytes);
  }
  files_.emplace(file.name, std::move(opened));
}

void CheckpointReader::check_entry(const Manifest::Entry& entry) const {
  const SafetensorsFile& file = files_.find(entry.file)->second;
  const auto* stored = file.find(entry.name);
  if (stored == nullptr) {
    throw DataError("{}: tensor {} of the manifest is missing", file.path().string(), entry.name);
  }
  if (stored->dtype != entry.dtype || stored->shape != entry.shape) {
    throw DataError("{}: tensor {} is {} {}, the manifest says {} {}", file.path().string(),
                    entry.name, name_of(stored->dtype), stored->shape.to_string(),
                    name_of(entry.dtype), entry.shape.to_string());
  }
}

const Manifest::Entry* CheckpointReader::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &manifest_.tensors[found->second];
}

std::span<const std::byte> CheckpointReader::bytes(const Manifest::Entry& entry) const {
  const SafetensorsFile& file = files_.find(entry.file)->second;
  const auto bytes = file.bytes(*file.find(entry.name));
  if (verify_ == Verify::kYes && xxh3(bytes) != entry.xxh3) {
    throw DataError(
        "{}: tensor {} is damaged: its digest is {}, the manifest says {}; name an older "
        "checkpoint",
        file.path().string(), entry.name, digest_to_text(xxh3(bytes)), digest_to_text(entry.xxh3));
  }
  return bytes;
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
  fill_from_global_bytes(target, entry->dtype, bytes(*entry));
}

void CheckpointReader::verify_all() const {
  for (const auto& entry : manifest_.tensors) bytes(entry);
  for (const auto& file : manifest_.files) {
    const fs::path path = directory_ / file.name;
    if (digest_file(path) != FileDigest{.bytes = file.bytes, .xxh3 = file.xxh3}) {
      throw DataError("{}: damaged: its digest is not the manifest's", path.string());
    }
  }
}

std::string missing_tracker_message(const fs::path& directory) {
  return fmt::format("could not find {}: no checkpoint is loaded, the run starts from random",
                     (directory / kTrackerName).string());
}

}  // namespace phalanx
