#include "phalanx/checkpoint/checkpoint_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/file.h"
#include "phalanx/base/first_few.h"
#include "phalanx/base/hash.h"
#include "phalanx/base/log.h"
#include "phalanx/base/working_directory.h"
#include "phalanx/checkpoint/checkpoint_directory.h"
#include "phalanx/checkpoint/input_file.h"
#include "phalanx/checkpoint/tensor_source.h"

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

// The copies of input files.
void check_copies(const fs::path& directory, const Manifest& manifest, bool verifies) {
  for (const auto& file : manifest.files) {
    if (!is_copy_name(file.name)) continue;
    const fs::path path = directory / file.name;
    const std::int64_t bytes = describe_input_length("", path).bytes;
    if (bytes != file.bytes) {
      throw DataError("{}: has {} bytes, the manifest says {}", path.string(), bytes, file.bytes);
    }
    if (verifies && digest_file(path).xxh3 != file.xxh3) {
      throw DataError("{}: damaged: its digest is not the manifest's", path.string());
    }
  }
}

// Of joined checkpoints.
constexpr std::size_t kOwn = 0;
constexpr std::size_t kOverlay = 1;
constexpr std::size_t kBase = 2;
constexpr std::size_t kOwners = 3;

class JoinedChunks final : public ChunkReader {
 public:
  JoinedChunks(std::unique_ptr<ChunkReader> own, std::unique_ptr<ChunkReader> overlay,
               std::unique_ptr<ChunkReader> base)
      : readers_{std::move(own), std::move(overlay), std::move(base)} {}

  void read(const StoredChunk& chunk, std::span<std::byte> to) override {
    ChunkReader& reader = *readers_[chunk.source % kOwners];
    StoredChunk own = chunk;
    own.source /= kOwners;
    const std::int64_t before = reader.bytes_read();
    reader.read(own, to);
    bytes_read_ += reader.bytes_read() - before;
  }

 private:
  std::array<std::unique_ptr<ChunkReader>, kOwners> readers_;
};

bool means_another_checkpoint_may_do(const Error& error) {
  return error.code() == ErrorCode::kBadData || error.code() == ErrorCode::kInputMissing ||
         error.code() == ErrorCode::kIo;
}

}  // namespace

void check_not_refused(const fs::path& directory, std::span<const RefusedCheckpoint> refused) {
  for (const auto& [other, fault] : refused) {
    if (absolute_path(other) == absolute_path(directory)) throw DataError("{}", fault);
  }
}

std::optional<CheckpointReader> CheckpointReader::open_if_any(
    const fs::path& directory, Verify verify, std::span<const RefusedCheckpoint> refused) {
  const fs::path save = without_trailing_slash(directory);
  std::error_code error;
  const std::string name = save.filename().string();
  if (iteration_of_directory_name(name) || iteration_of_aside_name(name) ||
      fs::exists(save / kManifestName, error)) {
    check_not_refused(save, refused);
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
      check_not_refused(candidate->directory, refused);
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
      files_(files_of_directory(directory_)),
      manifest_(std::make_unique<const Manifest>(read_manifest_of(directory_))) {
  for (std::size_t i = 0; i < manifest().tensors.size(); ++i) {
    index_[manifest().tensors[i].name] = i;
  }
  check_copies(directory_, manifest(), verify != Verify::kNo);
  tensors_ = manifest().parts.empty() ? open_whole_tensors(directory_, manifest(), verify)
                                      : open_part_tensors(directory_, manifest(), verify);
}

CheckpointReader::CheckpointReader(std::shared_ptr<const CheckpointFiles> files, Verify verify)
    : files_(std::move(files)),
      manifest_(std::make_unique<const Manifest>(
          parse_manifest(files_->open(kManifestName).text(), files_->path(kManifestName)))) {
  for (std::size_t i = 0; i < manifest().tensors.size(); ++i) {
    index_[manifest().tensors[i].name] = i;
  }
  for (const auto& file : manifest().files) {
    if (xxh3(content_of(file.name)) != file.xxh3) {
      throw DataError("{}: damaged: its digest is not the manifest's", files_->path(file.name));
    }
  }
  tensors_ = open_part_tensors(files_, manifest(), verify);
}

CheckpointReader::CheckpointReader(Manifest manifest, std::unique_ptr<const StoredTensors> tensors)
    : manifest_(std::make_unique<const Manifest>(std::move(manifest))),
      tensors_(std::move(tensors)) {
  for (std::size_t i = 0; i < this->manifest().tensors.size(); ++i) {
    index_[this->manifest().tensors[i].name] = i;
  }
}

bool CheckpointReader::has_optimizer() const {
  return std::ranges::any_of(manifest().tensors, [](const auto& entry) {
    return entry.name.starts_with(kOptimizerPrefix);
  });
}

const Manifest::Entry* CheckpointReader::find_own(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &manifest().tensors[found->second];
}

const Manifest::Entry* CheckpointReader::find(std::string_view name) const {
  const bool is_weight = !name.starts_with(kOptimizerPrefix);
  const Manifest::Entry* entry = nullptr;
  if (overlay_ && is_weight) entry = overlay_->find(name);
  if (entry == nullptr) entry = find_own(name);
  if (entry == nullptr && base_ && is_weight) entry = base_->find(name);
  return entry;
}

std::size_t CheckpointReader::owner_of(const Manifest::Entry& entry) const {
  const auto has = [&](const CheckpointReader& reader) {
    const auto& tensors = reader.manifest().tensors;
    return std::less_equal<>()(tensors.data(), &entry) &&
           std::less<>()(&entry, tensors.data() + tensors.size());
  };
  if (overlay_ && has(*overlay_)) return kOverlay;
  if (base_ && has(*base_)) return kBase;
  return kOwn;
}

void CheckpointReader::read_box(const Manifest::Entry& entry, const MatrixBox& box,
                                std::span<std::byte> to) const {
  const std::size_t owner = owner_of(entry);
  if (owner == kOwn) return tensors_->read(entry, box, to);
  (owner == kOverlay ? overlay_ : base_)->read_box(entry, box, to);
}

std::vector<StoredUnit> CheckpointReader::units(
    std::span<const Manifest::Entry* const> wanted) const {
  if (!overlay_ && !base_) return tensors_->units(wanted);
  std::array<std::vector<const Manifest::Entry*>, kOwners> of_owner;
  for (const Manifest::Entry* entry : wanted) of_owner[owner_of(*entry)].push_back(entry);
  std::vector<StoredUnit> units;
  for (std::size_t owner = 0; owner < kOwners; ++owner) {
    if (of_owner[owner].empty()) continue;
    std::vector<StoredUnit> some = owner == kOwn       ? tensors_->units(of_owner[owner])
                                   : owner == kOverlay ? overlay_->units(of_owner[owner])
                                                       : base_->units(of_owner[owner]);
    for (StoredUnit& unit : some) {
      for (StoredChunk& chunk : unit) chunk.source = chunk.source * kOwners + owner;
      units.push_back(std::move(unit));
    }
  }
  return units;
}

std::unique_ptr<ChunkReader> CheckpointReader::chunk_reader() const {
  if (!overlay_ && !base_) return tensors_->chunk_reader();
  return std::make_unique<JoinedChunks>(tensors_->chunk_reader(),
                                        overlay_ ? overlay_->chunk_reader() : nullptr,
                                        base_ ? base_->chunk_reader() : nullptr);
}

void CheckpointReader::visit(const Manifest::Entry& entry,
                             const std::function<void(std::span<const std::byte>)>& visit) const {
  const std::int64_t size = size_of(entry.dtype);
  std::vector<std::byte> bytes;
  for_pieces(whole_box(entry.shape), kReadBytes / size, [&](const MatrixBox& piece) {
    bytes.resize(static_cast<std::size_t>(piece.count() * size));
    read_box(entry, piece, bytes);
    visit(bytes);
  });
}

const Manifest::Entry& CheckpointReader::stored(const Manifest::Entry& entry) const {
  if (entry.rounded_from.empty()) return entry;
  const std::size_t owner = owner_of(entry);
  return owner == kOwn ? *find_own(entry.rounded_from)
                       : (owner == kOverlay ? overlay_ : base_)->stored(entry);
}

const Manifest::Entry& CheckpointReader::entry_for(const GlobalTensor& target,
                                                   DTypeMatch match) const {
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
  return *entry;
}

void CheckpointReader::read(const GlobalTensor& target, DTypeMatch match) const {
  const Manifest::Entry& entry = entry_for(target, match);
  check_boxes(target, Coverage::kPartial);
  const std::int64_t size = size_of(entry.dtype);
  std::vector<std::byte> bytes;
  for (const ParamBox& box : target.boxes) {
    for_pieces(global_box(box), kReadBytes / size, [&](const MatrixBox& piece) {
      bytes.resize(static_cast<std::size_t>(piece.count() * size));
      read_box(entry, piece, bytes);
      fill_from_box(target, piece, entry.dtype, bytes);
    });
  }
}

std::optional<fs::path> CheckpointReader::copy_of(std::string_view flag) const {
  for (const auto& file : manifest().input_files) {
    if (file.flag == flag && !file.copy.empty()) return directory_ / file.copy;
  }
  return base_ ? base_->copy_of(flag) : std::nullopt;
}

void CheckpointReader::verify_all() const {
  check_copies(directory_, manifest(), true);
  tensors_->verify_all();
}

std::string no_checkpoint_message(const fs::path& directory) {
  return fmt::format("{}: has no checkpoint: none is loaded, the run starts from random",
                     directory.string());
}

}  // namespace phalanx
