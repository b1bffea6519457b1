#include "phalanx/hugging_face/export.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/file.h"
#include "phalanx/base/log.h"
#include "phalanx/base/numeric.h"
#include "phalanx/checkpoint/checkpoint_writer.h"  // names of main parameters
#include "phalanx/checkpoint/safetensors.h"
#include "phalanx/checkpoint/staged_directory.h"
#include "phalanx/checkpoint/strict_json.h"
#include "phalanx/hugging_face/adapters.h"
#include "phalanx/hugging_face/folder.h"
#include "phalanx/hugging_face/tensor_stream.h"
#include "phalanx/mesh/global_tensor.h"

namespace phalanx::hugging_face {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::string_view kWordTable = "embedding.word_embeddings.weight";
// config.json is written as this version of transformers spells it.
constexpr std::string_view kSpelling = "4.44.0";

bool has_scaling(const Json& config) {
  return config.contains("rope_scaling") && !config["rope_scaling"].is_null();
}
bool is_yarn(const Json& config) {
  return has_scaling(config) && config["rope_scaling"]["rope_type"] == "yarn";
}
bool has_own_head_size(const Json& config) {
  return config.contains("head_dim") && config["head_dim"].get<std::int64_t>() *
                                                config["num_attention_heads"].get<std::int64_t>() !=
                                            config["hidden_size"].get<std::int64_t>();
}

// What older versions pass over in silence or do not know, with the first version that computes it.
// Source: the configuration and modeling files of the versions named and of those before them.
struct Need {
  std::string_view version;
  std::string_view model_types;  // between blanks; empty: all
  bool (*is_there)(const Json& config);
};
constexpr Need kNeeds[] = {
    // ascending
    {"4.45.0", " llama ", has_own_head_size},
    {"4.45.0", " qwen2 qwen2_moe ", has_scaling},
    {"4.47.0", " mixtral ", has_own_head_size},
    {"4.48.0", " mistral mixtral ", has_scaling},
    {"4.50.0", " qwen2_moe ", [](const Json& config) { return config["qkv_bias"] == false; }},
    {"4.51.0", " qwen3 qwen3_moe ", [](const Json& /*config*/) { return true; }},
    {"4.51.0", "", is_yarn},  // the positions before they were stretched
    {"4.55.0", "",
     [](const Json& config) {
       return is_yarn(config) && config["rope_scaling"].value("truncate", true) == false;
     }},
    {"5.0.0", " qwen2_moe ", [](const Json& config) { return config.contains("layer_types"); }},
};

// The first version of transformers that computes the model of this config.json.
std::string_view version_for(const Json& config) {
  const std::string type = " " + config["model_type"].get<std::string>() + " ";
  std::string_view version = kSpelling;
  for (const Need& need : kNeeds) {
    const bool is_of_type =
        need.model_types.empty() || need.model_types.find(type) != std::string_view::npos;
    if (is_of_type && need.is_there(config)) version = need.version;
  }
  return version;
}

struct StopRequested {};

// The linear whose weight a tensor is; "" if it is no weight.
std::string linear_of(const std::string& name) {
  constexpr std::string_view kWeight = ".weight";
  return name.ends_with(kWeight) ? name.substr(0, name.size() - kWeight.size()) : std::string();
}

std::string_view torch_name(DType dtype) {
  return dtype == DType::kBF16 ? "bfloat16" : dtype == DType::kF16 ? "float16" : "float32";
}

// Null, one id or a list.
Json id_json(const std::vector<std::int64_t>& ids) {
  if (ids.empty()) return nullptr;
  return ids.size() == 1 ? Json(ids.front()) : Json(ids);
}

Json others_of_generation(const ModelArguments& settings) {
  const std::string where = fmt::format("the checkpoint's argument {}", kGenerationOthers);
  Json others = parse_strict_json(settings.text(kGenerationOthers), where);
  if (!others.is_object()) throw DataError("{}: not a JSON object", where);
  for (const std::string_view key : kWrittenOfGeneration) others.erase(std::string(key));
  return others;
}

std::string text_of(const Json& json) { return json.dump(2) + "\n"; }

}  // namespace

std::int64_t vocabulary_of(const CheckpointReader& checkpoint) {
  const auto* entry = checkpoint.find(kWordTable);
  if (entry == nullptr || entry->shape.rank() != 2) {
    throw ConfigError("{}: has no word table {}", checkpoint.directory().string(), kWordTable);
  }
  return entry->shape[0];
}

Export::Export(const CheckpointReader& checkpoint, ModelArguments settings,
               const Architecture& architecture, std::optional<DType> dtype, const Adapters* merged)
    : checkpoint_(checkpoint),
      settings_(std::move(settings)),
      architecture_(architecture),
      merged_(merged) {
  const Faults faults = faults_of(architecture_, settings_);
  if (!faults.empty()) {
    const std::string line = fmt::format("{} cannot have this model: ", architecture_.name);
    throw ConfigError("{}{}", line, fmt::join(faults, "\n" + line));
  }
  table_ = architecture_.tensors(settings_);
  check_table(table_);
  for (const TensorRow& row : table_.rows) {
    const Manifest::Entry& entry = entry_of(row, dtype);
    const DType written = dtype.value_or(entry.dtype == DType::kF64 ? DType::kF32 : entry.dtype);
    for (const TensorPart& part : row.parts) {
      tensors_.push_back({.row = &row, .part = &part, .entry = &entry, .dtype = written});
    }
  }
  check_surplus();
}

// Whether to take main parameters: they are exact, while the model's are rounded to another type
// than the wanted one.
const Manifest::Entry& Export::entry_of(const TensorRow& row, std::optional<DType> dtype) const {
  const std::string directory = checkpoint_.directory().string();
  const auto* entry = checkpoint_.find(row.name);
  if (entry == nullptr) {
    throw ConfigError("{}: has no tensor {}, which {} has", directory, row.name,
                      architecture_.name);
  }
  if (entry->shape != row.shape || !is_floating(entry->dtype)) {
    throw ConfigError("{}: tensor {} is {} {}, that of {} is {}", directory, row.name,
                      name_of(entry->dtype), entry->shape.to_string(), architecture_.name,
                      row.shape.to_string());
  }
  if (!dtype || *dtype == entry->dtype) return *entry;
  const auto* main = checkpoint_.find(std::string(kMainParamPrefix) + row.name);
  return main != nullptr && main->shape == row.shape ? *main : *entry;
}

void Export::check_surplus() const {
  std::set<std::string_view> places;
  for (const TensorRow& row : table_.rows) places.insert(row.name);
  for (const auto& entry : checkpoint_.manifest().tensors) {
    if (entry.name.starts_with(kOptimizerPrefix) || places.contains(entry.name)) continue;
    const bool is_adapter = entry.name.find(kAdapterMark) != std::string::npos;
    if (is_adapter && merged_ != nullptr) continue;
    throw ConfigError("{}: tensor {} has no place in {}", checkpoint_.directory().string(),
                      entry.name, architecture_.name);
  }
}

std::int64_t Export::parameters() const {
  std::int64_t count = 0;
  for (const Tensor& tensor : tensors_) count += tensor.part->shape.count();
  return count;
}

Json Export::config() const {
  Json config = Json::object();
  Faults faults;
  architecture_.write_config(settings_, config, faults);
  config["architectures"] = {architecture_.name};
  config["model_type"] = architecture_.model_type;
  config["torch_dtype"] = torch_name(tensors_.front().dtype);
  config["bos_token_id"] = id_json(settings_.ids(kConfigBos));
  config["eos_token_id"] = id_json(settings_.ids(kConfigEos));
  config["pad_token_id"] = id_json(settings_.ids(kConfigPad));
  config["transformers_version"] = version_for(config);
  return config;
}

std::string Export::config_json() const { return text_of(config()); }

std::string Export::generation_json() const {
  Json config = {{"transformers_version", version_for(this->config())}};
  const auto add = [&](const char* key, std::string_view generation, std::string_view in_config) {
    const auto ids = settings_.ids(settings_.has(generation) ? generation : in_config);
    if (!ids.empty()) config[key] = id_json(ids);
  };
  add("bos_token_id", kGenerationBos, kConfigBos);
  add("eos_token_id", kGenerationEos, kConfigEos);
  add("pad_token_id", kConfigPad, kConfigPad);
  if (architecture_.family == "t5") {
    config["decoder_start_token_id"] = settings_.integer(kConfigDecoderStart, 0);
  }
  // What an imported file says otherwise of padding and of a decoder's first token counts more.
  if (settings_.has(kGenerationOthers)) config.update(others_of_generation(settings_));
  return text_of(config);
}

std::vector<Export::Shard> Export::shards(std::int64_t max_bytes) const {
  std::vector<Shard> shards(1);
  std::int64_t filled = 0;
  for (const Tensor& tensor : tensors_) {
    if (!shards.back().empty() && filled + tensor.bytes() > max_bytes) {
      shards.emplace_back();
      filled = 0;
    }
    shards.back().push_back(&tensor);
    filled += tensor.bytes();
  }
  return shards;
}

void Export::read_merged(const Tensor& tensor, const MatrixBox& box,
                         std::span<std::byte> to) const {
  std::vector<std::byte> stored(
      static_cast<std::size_t>(box.count() * size_of(tensor.entry->dtype)));
  checkpoint_.read_box(*tensor.entry, box, stored);
  std::vector<float> values(static_cast<std::size_t>(box.count()));
  const auto bytes = std::as_writable_bytes(std::span(values));
  convert_elements(tensor.entry->dtype, stored.data(), DType::kF32, bytes.data(), box.count());
  merged_->add_to(linear_of(tensor.row->name), box, values);
  std::ranges::copy(bytes, to.begin());
}

void Export::write_shard(const fs::path& path, Shard shard, const ExportOptions& options) const {
  // Then every tensor begins at a multiple of its element size.
  std::ranges::stable_sort(shard, std::ranges::greater{},
                           [](const Tensor* tensor) { return size_of(tensor->dtype); });
  std::vector<SafetensorsWriter::Item> items;
  for (const Tensor* tensor : shard) {
    items.push_back({tensor->part->name, tensor->dtype, tensor->part->shape});
  }
  SafetensorsWriter writer(path, items, {{"format", "pt"}});
  for (const Tensor* tensor : shard) {
    const Manifest::Entry& entry = *tensor->entry;
    const bool is_merged = merged_ != nullptr && merged_->are_of(linear_of(tensor->row->name));
    const OurTensor ours{.dtype = is_merged ? DType::kF32 : entry.dtype,
                         .read = [&](std::int64_t first, std::int64_t rows, std::int64_t column,
                                     std::int64_t columns, std::span<std::byte> to) {
                           // As a matrix a vector is one row.
                           const MatrixBox box = entry.shape.rank() == 1
                                                     ? MatrixBox{0, first, 1, rows}
                                                     : MatrixBox{first, column, rows, columns};
                           if (is_merged) return read_merged(*tensor, box, to);
                           checkpoint_.read_box(entry, box, to);
                         }};
    visit_theirs(*tensor->row, *tensor->part, ours, tensor->dtype,
                 [&](std::span<const std::byte> bytes) {
                   if (options.stop_requested && options.stop_requested()) throw StopRequested{};
                   writer.write(bytes);
                 });
  }
  writer.commit();
}

void Export::write_weights(const fs::path& directory, const ExportOptions& options) const {
  const auto all = shards(options.max_shard_bytes);
  if (all.size() == 1) {
    write_shard(directory / kWeightsName, all.front(), options);
    return;
  }
  Json map = Json::object();
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto name = fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, all.size());
    write_shard(directory / name, all[i], options);
    for (const Tensor* tensor : all[i]) {
      map[tensor->part->name] = name;
      bytes += tensor->bytes();
    }
  }
  const Json index = {{"metadata", {{"total_size", bytes}}}, {"weight_map", std::move(map)}};
  write_file_durably(directory / kIndexName, text_of(index));
}

bool Export::write(const fs::path& directory, const ExportOptions& options) const {
  StagedDirectory staging(directory, "--output");
  if (architecture_.remark != nullptr) {
    const std::string remark = architecture_.remark(settings_);
    if (!remark.empty()) log_warning("{}", remark);
  }
  std::int64_t needed = 0;
  for (const Tensor& tensor : tensors_) needed += tensor.bytes();
  std::error_code error;
  const auto space = fs::space(staging.path(), error);
  if (!error && static_cast<std::uintmax_t>(needed) > space.available) {
    throw OutputError("{}: no space for the weights: {} needed, {} free", directory.string(),
                      format_bytes(needed),
                      format_bytes(static_cast<std::int64_t>(space.available)));
  }
  write_file_durably(staging.path() / kConfigName, config_json());
  write_file_durably(staging.path() / kGenerationName, generation_json());
  for (const InputCopy& file : options.files) {
    write_file_durably(staging.path() / file.name, file.bytes);
  }
  try {
    write_weights(staging.path(), options);
  } catch (const StopRequested&) {
    return false;
  }
  staging.commit();
  return true;
}

}  // namespace phalanx::hugging_face
