#include "phalanx/checkpoint/hugging_face/import.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/log.h"
#include "phalanx/checkpoint/staged_directory.h"

namespace phalanx::hugging_face {
namespace {

struct StopRequested {};

// The type that has every value of both.
DType wider(DType a, DType b) {
  if (a == b) return a;
  if (a == DType::kF64 || b == DType::kF64) return DType::kF64;
  return DType::kF32;
}

bool matches(std::string_view pattern, std::string_view name) {
  return pattern.starts_with('*') ? name.ends_with(pattern.substr(1)) : name == pattern;
}

class ImportSource final : public TensorSource {
 public:
  ImportSource(const Import& model, const std::function<bool()>& stop_requested)
      : model_(model), stop_requested_(stop_requested) {
    for (std::size_t row = 0; row < model.table().rows.size(); ++row) {
      const TensorRow& tensor = model.table().rows[row];
      infos_.push_back({tensor.name, model.dtype(row), tensor.shape});
    }
  }

  int size() const override { return static_cast<int>(infos_.size()); }
  const Info& info(int index) const override { return infos_[static_cast<std::size_t>(index)]; }
  void visit(int index, const Visitor& visitor) override {
    const auto row = static_cast<std::size_t>(index);
    visit_ours(model_.table().rows[row], model_.parts(row), model_.dtype(row),
               [&](std::span<const std::byte> bytes) {
                 if (stop_requested_ && stop_requested_()) throw StopRequested{};
                 visitor(bytes);
               });
  }

 private:
  const Import& model_;
  const std::function<bool()>& stop_requested_;
  std::vector<Info> infos_;
};

}  // namespace

Import::Import(const std::filesystem::path& directory, bool ignore_unexpected)
    : folder_(directory), architecture_(&architecture_of(folder_.config())) {
  architecture_->read_config(folder_.config(), settings_);
  if (!settings_.has("--seq-length")) settings_.set("--seq-length", settings_.positions());
  settings_.set("run.family", std::string(architecture_->family));
  settings_.set(kConfigArchitecture, std::string(architecture_->name));
  read_tokens();
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
  // What generation_config.json says of generation counts more.
  const auto& generation = folder_.generation();
  const auto generation_ids = [&](const std::string& key, std::string_view in_config) {
    const bool says = generation && generation->has(key) && !generation->is_null(key);
    return says ? generation->ids(key) : settings_.ids(in_config);
  };
  keep(kGenerationBos, generation_ids("bos_token_id", kConfigBos));
  keep(kGenerationEos, generation_ids("eos_token_id", kConfigEos));
  for (const char* key : {"transformers_version", "torch_dtype", "dtype", "use_cache",
                          "_name_or_path", "return_dict", "bos_token_id", "eos_token_id"}) {
    config.skip(key);
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
      throw DataError("{}: has no tensor {}, which the {} of its config.json has",
                      folder_.directory().string(), part.name, architecture_->name);
    }
    const SafetensorsEntry& entry = *found->second.entry;
    const std::string path = found->second.file->path().string();
    if (entry.shape != part.shape) {
      throw DataError("{}: tensor {} is {}, but config.json makes it {}", path, entry.name,
                      entry.shape.to_string(), part.shape.to_string());
    }
    if (!is_floating(entry.dtype)) {
      throw DataError("{}: tensor {} is of type {}: weights are f32, bf16 or f16", path, entry.name,
                      name_of(entry.dtype));
    }
    dtype = dtype ? wider(*dtype, entry.dtype) : entry.dtype;
  }
  if (*dtype == DType::kF64) {
    log_warning("{}: {} is f64 and becomes f32", folder_.directory().string(), row.name);
    dtype = DType::kF32;
  }
  dtypes_.push_back(*dtype);
}

// Whether the table has no place for a tensor. DataError where it should be as its twin and is not.
bool Import::is_dropped(const std::string& name, const FolderTensor& tensor) const {
  for (const DroppedTensor& dropped : table_.dropped) {
    if (!matches(dropped.name, name)) continue;
    if (dropped.twin.empty()) return true;
    const auto twin = stored_.find(dropped.twin);
    const bool is_equal =
        twin != stored_.end() && twin->second.entry->dtype == tensor.entry->dtype &&
        twin->second.entry->shape == tensor.entry->shape &&
        std::memcmp(twin->second.bytes().data(), tensor.bytes().data(), tensor.bytes().size()) == 0;
    if (is_equal) return true;
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
    parts.push_back({.dtype = tensor.entry->dtype, .bytes = tensor.bytes()});
  }
  return parts;
}

bool write_import(const Import& model, const ImportOutput& output) {
  StagedDirectory staging(output.directory, "--output");
  Manifest manifest;
  manifest.arguments = model.settings().arguments();
  for (const auto& [flag, value] : output.tokenizer) manifest.arguments[flag] = value;
  manifest.input_files = output.input_files;
  manifest.input_files.push_back(
      describe_input_file("--input", model.folder().directory() / kConfigName));
  // Reading all of them once more for a digest would double the time.
  for (const auto& file : model.folder().files()) {
    manifest.input_files.push_back(describe_input_length("--input", file->path()));
  }
  ImportSource source(model, output.stop_requested);
  try {
    save_checkpoint({.directory = staging.path(), .copies = output.copies}, std::move(manifest),
                    source);
  } catch (const StopRequested&) {
    return false;
  }
  staging.commit();
  return true;
}

}  // namespace phalanx::hugging_face
