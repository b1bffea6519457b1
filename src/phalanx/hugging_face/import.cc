#include "phalanx/hugging_face/import.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/log.h"

namespace phalanx::hugging_face {
namespace {

constexpr std::size_t kLongestGeneration = std::size_t{1} << 18;

// The type that has every value of both.
DType wider(DType a, DType b) {
  if (a == b) return a;
  if (a == DType::kF64 || b == DType::kF64) return DType::kF64;
  return DType::kF32;
}

bool matches(std::string_view pattern, std::string_view name) {
  return pattern.starts_with('*') ? name.ends_with(pattern.substr(1)) : name == pattern;
}

}  // namespace

Import::Import(const std::filesystem::path& directory, bool ignore_unexpected)
    : folder_(directory), architecture_(&architecture_of(folder_.config())) {
  architecture_->read_config(folder_.config(), settings_);
  if (!settings_.has("--seq-length")) settings_.set("--seq-length", settings_.positions());
  settings_.set("run.family", std::string(architecture_->family));
  settings_.set(kConfigArchitecture, std::string(architecture_->name));
  read_tokens();
  if (architecture_->read_tensors != nullptr) architecture_->read_tensors(folder_, settings_);
  check_sizes();
  table_ = architecture_->tensors(settings_);
  check_table(table_);
  place_tensors(ignore_unexpected);
}

void Import::read_tokens() {
  const ConfigFile& config = folder_.config();
  const auto keep = [&](std::string_view argument, std::vector<std::int64_t> ids) {
    std::erase_if(ids, [&](std::int64_t id) { return id < 0 || id >= settings_.vocabulary(); });
    if (!ids.empty()) settings_.set(argument, ids);
  };
  const auto ids_of = [&](const std::string& key, std::int64_t otherwise) {
    return config.has(key) ? config.ids(key) : std::vector<std::int64_t>{otherwise};
  };
  keep(kConfigBos, ids_of("bos_token_id", architecture_->default_bos));
  keep(kConfigEos, ids_of("eos_token_id", architecture_->default_eos));
  keep(kConfigPad, config.ids("pad_token_id"));
  // generation_config.json has precedence for generation.
  const auto& generation = folder_.generation();
  const auto generation_ids = [&](const std::string& key, std::string_view in_config) {
    const bool says = generation && generation->has(key) && !generation->is_null(key);
    return says ? generation->ids(key) : settings_.ids(in_config);
  };
  keep(kGenerationBos, generation_ids("bos_token_id", kConfigBos));
  keep(kGenerationEos, generation_ids("eos_token_id", kConfigEos));
  keep_generation();
  check_decoder_start();
  for (const char* key :
       {"transformers_version", "torch_dtype", "dtype", "use_cache", "_name_or_path", "return_dict",
        "tokenizer_class", "id2label", "label2id", "pretraining_tp"}) {
    config.skip(key);
  }
}

// transformers trains with config.json's and generates with generation_config.json's.
void Import::check_decoder_start() const {
  constexpr const char* kKey = "decoder_start_token_id";
  const auto& generation = folder_.generation();
  if (!settings_.has(kConfigDecoderStart) || !generation || !generation->says(kKey)) return;
  const std::int64_t own = settings_.integer(kConfigDecoderStart);
  const std::int64_t others = generation->integer(kKey, -kMostInt32, kMostInt32);
  if (own == others) return;
  generation->warn(fmt::format(
      "'{}' is {}, but {} in config.json, which counts: Phalanx trains and generates with one",
      kKey, others, own));
}

void Import::keep_generation() {
  if (!folder_.generation()) return;
  const std::string others = folder_.generation()->text_without(kWrittenOfGeneration);
  if (others.size() > kLongestGeneration) {
    folder_.generation()->warn(
        fmt::format("{} bytes beside the token ids are more than the limit of {}: left out",
                    others.size(), kLongestGeneration));
  } else if (!others.empty()) {
    settings_.set(kGenerationOthers, others);
  }
}

// Limits, so that a number in a file cannot make a huge table of tensors.
void Import::check_sizes() const {
  const std::int64_t layers = settings_.layers() + settings_.integer("--decoder-num-layers");
  if (layers > std::ssize(folder_.tensors())) {
    throw DataError("{}: has {} tensors, too few for the {} layers of its config.json",
                    folder_.directory().string(), folder_.tensors().size(), layers);
  }
  const std::int64_t experts = settings_.integer("--num-experts");
  std::int64_t bytes = 0;
  for (const auto& [name, tensor] : folder_.tensors()) bytes += tensor.entry->bytes;
  if (layers * experts > bytes) {
    throw DataError("{}: has {} bytes of tensors, too few for the {} experts of its config.json",
                    folder_.directory().string(), bytes, experts);
  }
}

// Puts the parts of joined tensors in their place.
void Import::split_joined() {
  for (const JoinedTensor& joined : table_.joined) {
    const auto found = stored_.find(joined.name);
    if (found == stored_.end()) continue;
    const FolderTensor stored = found->second;
    stored_.erase(found);
    split(joined, stored);
  }
}

void Import::split(const JoinedTensor& joined, const FolderTensor& stored) {
  const SafetensorsEntry& whole = *stored.entry;
  const std::string path = stored.file->path().string();
  if (whole.shape != joined.shape) {
    throw DataError("{}: tensor {} is {}, but config.json makes it {}", path, whole.name,
                    whole.shape.to_string(), joined.shape.to_string());
  }
  const std::int64_t columns = joined.shape[joined.shape.rank() - 1];
  const std::int64_t row_bytes = whole.bytes / (whole.shape.count() / columns);
  std::int64_t offset = whole.offset;
  for (const StackedPart& part : joined.parts) {
    SafetensorsEntry& piece = pieces_.emplace_back(whole);
    piece.shape = {part.rows, columns};
    piece.offset = offset;
    piece.bytes = part.rows * row_bytes;
    offset += piece.bytes;
    if (!stored_.emplace(part.name, FolderTensor{.file = stored.file, .entry = &piece}).second) {
      throw DataError("{}: tensor {} comes twice, as a part of {} too", path, part.name,
                      whole.name);
    }
  }
}

void Import::place_tensors(bool ignore_unexpected) {
  for (const auto& [name, tensor] : folder_.tensors()) {
    const std::string canonical =
        table_.canonical_name != nullptr ? table_.canonical_name(name) : name;
    if (!stored_.emplace(canonical, tensor).second) {
      throw DataError("{}: tensor {} comes twice, by another name too",
                      tensor.file->path().string(), name);
    }
  }
  split_joined();
  std::set<std::string_view> wanted;
  for (const TensorRow& row : table_.rows) {
    place(row);
    for (const TensorPart& part : row.parts) wanted.insert(part.name);
  }
  for (const auto& [name, tensor] : stored_) {
    if (wanted.contains(name)) continue;
    if (!is_dropped(name, tensor)) {
      const std::string text =
          fmt::format("{}: tensor {} is not of the {} that config.json describes",
                      tensor.file->path().string(), tensor.entry->name, architecture_->name);
      if (!ignore_unexpected) {
        throw DataError("{}: give --ignore-unexpected to leave out what has no place", text);
      }
      log_warning("{}: left out", text);
    }
    dropped_.push_back(tensor.entry->name);
  }
}

void Import::place(const TensorRow& row) {
  std::optional<DType> dtype;
  for (const TensorPart& part : row.parts) {
    const auto found = stored_.find(part.name);
    if (found == stored_.end()) {
      const std::string_view read = architecture_->what_is_read;
      throw DataError("{}: has no tensor {}, which the {} of its config.json has{}{}",
                      folder_.directory().string(), part.name, architecture_->name,
                      read.empty() ? "" : ": ", read);
    }
    const SafetensorsEntry& entry = *found->second.entry;
    const std::string path = found->second.file->path().string();
    if (entry.shape != part.shape) {
      throw DataError("{}: tensor {} is {}, but config.json makes it {}", path, entry.name,
                      entry.shape.to_string(), part.shape.to_string());
    }
    if (!entry.dtype || !is_floating(*entry.dtype)) {
      throw DataError("{}: tensor {} is of type {}: weights are F32, BF16 or F16", path, entry.name,
                      entry.type);
    }
    dtype = dtype ? wider(*dtype, *entry.dtype) : *entry.dtype;
  }
  if (*dtype == DType::kF64) {
    log_warning("{}: {} is f64 and becomes f32", folder_.directory().string(), row.name);
    dtype = DType::kF32;
  }
  dtypes_.push_back(*dtype);
}

// Whether the table does not use a tensor. DataError if it should equal its twin and does not.
bool Import::is_dropped(const std::string& name, const FolderTensor& tensor) const {
  for (const DroppedTensor& dropped : table_.dropped) {
    if (!matches(dropped.name, name)) continue;
    if (dropped.twin.empty()) return true;
    const auto twin = stored_.find(dropped.twin);
    if (twin != stored_.end() && twin->second.is_equal(tensor)) return true;
    throw DataError(
        "{}: tensor {} is not equal to {}, with which config.json ties it: set "
        "'tie_word_embeddings' to what the model is, or remove the one that is wrong",
        tensor.file->path().string(), tensor.entry->name, dropped.twin);
  }
  return false;
}

std::int64_t Import::parameters() const {
  std::int64_t count = 0;
  for (const TensorRow& row : table_.rows) count += row.shape.count();
  return count;
}

std::vector<StoredTensor> Import::parts(std::size_t row) const {
  std::vector<StoredTensor> parts;
  for (const TensorPart& part : table_.rows[row].parts) {
    const FolderTensor& tensor = stored_.find(part.name)->second;
    parts.push_back({.dtype = *tensor.entry->dtype, .bytes = tensor.bytes()});
  }
  return parts;
}

}  // namespace phalanx::hugging_face
