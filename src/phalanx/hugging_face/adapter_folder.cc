#include "phalanx/hugging_face/adapter_folder.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/first_few.h"
#include "phalanx/checkpoint/safetensors.h"
#include "phalanx/hugging_face/architecture.h"
#include "phalanx/hugging_face/saved_modules.h"
#include "phalanx/mesh/global_tensor.h"

namespace phalanx::hugging_face {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "base_model.model.";
constexpr std::string_view kEndA = ".lora_A.weight";
constexpr std::string_view kEndB = ".lora_B.weight";

// The table of the model that has the flags.
TensorTable table_of(const ModelArguments& base) {
  const std::string family = base.text("run.family", "gpt");
  if (family != "gpt") {
    throw ConfigError("adapters are of models that continue texts, not of a {}", family);
  }
  return architecture_for(base).tensors(base);
}

const fs::path& existing_folder(const fs::path& directory) {
  std::error_code error;
  if (!fs::exists(directory, error)) {
    throw InputMissingError("{}: no such folder", directory.string());
  }
  const bool has_config = fs::exists(directory / kAdapterConfigName, error);
  const bool has_tensors = fs::exists(directory / kAdapterWeightsName, error);
  if (!has_config || !has_tensors) {
    const bool has_pickle = fs::exists(directory / "adapter_model.bin", error);
    throw InputMissingError(
        "{}: no folder of adapters: {} is missing{}", directory.string(),
        has_config ? kAdapterWeightsName : kAdapterConfigName,
        has_pickle && !has_tensors
            ? "; adapter_model.bin is a pickle, which may run any code when it is read: write the "
              "adapters with peft's save_pretrained()"
            : "");
  }
  return directory;
}

bool is_conv1d(const std::vector<AdapterModule>& modules) {
  return std::ranges::any_of(modules, &AdapterModule::is_conv1d);
}

// The factors of a module in the file.
struct Stored {
  const AdapterModule* module = nullptr;
  const SafetensorsEntry* a = nullptr;
  const SafetensorsEntry* b = nullptr;
};

class Reader {
 public:
  Reader(const MappedSafetensors& file, const AdapterConfig& config,
         const std::vector<AdapterModule>& modules, const TensorTable& table)
      : file_(file), path_(file.path().string()), config_(config), table_(table) {
    for (const AdapterModule& module : modules) by_name_[module.name] = &module;
    for (const SafetensorsEntry& entry : file.entries()) take(entry);
    check_pairs();
    check_targets();
    check_whole();
  }

  // By the names of modules.
  const std::map<std::string, Stored, std::less<>>& stored() const { return stored_; }

  const WholeTensors& whole() const { return whole_; }

  std::vector<float> values(const SafetensorsEntry& entry) const {
    std::vector<float> values(static_cast<std::size_t>(entry.shape.count()));
    convert_elements(*entry.dtype, file_.bytes(entry).data(), DType::kF32,
                     std::as_writable_bytes(std::span(values)).data(), entry.shape.count());
    return values;
  }

 private:
  void take(const SafetensorsEntry& entry) {
    const std::string& name = entry.name;
    if (name.ends_with(".lora_magnitude_vector")) {
      throw ConfigError("{}: {}: adapters with magnitudes (DoRA) are not supported", path_, name);
    }
    const bool is_a = name.ends_with(kEndA);
    const bool is_adapter = is_a || name.ends_with(kEndB);
    const std::string of_base = name.starts_with(kPrefix) ? name.substr(kPrefix.size()) : "";
    if (!is_adapter && is_of_base(table_, of_base)) {
      check_type(entry);
      whole_.emplace(of_base, &entry);
      return;
    }
    if (of_base.empty() || !is_adapter) {
      throw DataError(
          "{}: tensor {} is no adapter of a linear, and no tensor of the base: adapters are called "
          "{}MODULE{} and {}",
          path_, name, kPrefix, kEndA, kEndB);
    }
    const std::string module = of_base.substr(0, of_base.size() - kEndA.size());
    const auto found = by_name_.find(module);
    if (found == by_name_.end()) {
      throw DataError(
          "{}: tensor {} is of a module that the base model does not have, or whose "
          "adapters are not supported",
          path_, name);
    }
    check_type(entry);
    Stored& stored = stored_[module];
    stored.module = found->second;
    (is_a ? stored.a : stored.b) = &entry;
  }

  void check_type(const SafetensorsEntry& entry) const {
    if (entry.dtype && is_floating(*entry.dtype) && *entry.dtype != DType::kF64) return;
    throw DataError("{}: tensor {} is of type {}: adapters are F32, BF16 or F16", path_, entry.name,
                    entry.type);
  }

  void check_pairs() const {
    if (stored_.empty()) throw DataError("{}: has no adapters", path_);
    for (const auto& [name, pair] : stored_) {
      if (pair.a == nullptr || pair.b == nullptr) {
        throw DataError("{}: {}{}{} is missing", path_, kPrefix, name,
                        pair.a == nullptr ? kEndA : kEndB);
      }
      const std::int64_t rank = config_.rank_of(name);
      check_shape(*pair.a, {rank, pair.module->columns}, rank);
      check_shape(*pair.b, {pair.module->rows, rank}, rank);
    }
  }
  void check_shape(const SafetensorsEntry& entry, const Shape& shape, std::int64_t rank) const {
    if (entry.shape == shape) return;
    throw DataError("{}: tensor {} is {}, but with rank {} and this base model it is {}", path_,
                    entry.name, entry.shape.to_string(), rank, shape.to_string());
  }

  // Each name that the configuration has must be of a tensor.
  void check_targets() const {
    std::vector<std::string> missing;
    for (const std::string& target : config_.targets) {
      const bool is_found = std::ranges::any_of(
          stored_, [&](const auto& item) { return is_meant(target, item.first, path_); });
      if (!is_found) missing.push_back(target);
    }
    if (missing.empty()) return;
    throw DataError("{}: has no tensor of {}, which {} names in 'target_modules'", path_,
                    first_few(missing, ", "), kAdapterConfigName);
  }

  // Each whole module that the configuration has must be there, and have no adapter.
  void check_whole() const {
    for (const std::string& name : config_.whole) {
      const bool is_found = std::ranges::any_of(whole_, [&](const auto& item) {
        return item.first.find(name + ".") != std::string::npos;
      });
      if (is_found) continue;
      throw DataError("{}: has no tensor of {}, which {} names in 'modules_to_save'", path_, name,
                      kAdapterConfigName);
    }
    for (const auto& [name, entry] : whole_) {
      if (!stored_.contains(name.substr(0, name.rfind('.')))) continue;
      throw DataError("{}: {} is whole and has an adapter too", path_, entry->name);
    }
  }

  const MappedSafetensors& file_;
  std::string path_;
  const AdapterConfig& config_;
  const TensorTable& table_;
  WholeTensors whole_;
  std::map<std::string, const AdapterModule*, std::less<>> by_name_;
  std::map<std::string, Stored, std::less<>> stored_;
};

// The words of a layer, and the layers; ConfigError unless all layers have the same.
void set_places(const std::vector<const AdapterModule*>& modules, std::int64_t layers,
                const std::string& path, AdapterSettings& settings) {
  std::map<std::int64_t, std::set<std::string>> words;  // by layer
  for (const AdapterModule* module : modules) words[module->layer].insert(module->word);
  const auto& [first, of_first] = *words.begin();
  for (const auto& [layer, of_layer] : words) {
    if (of_layer == of_first) continue;
    throw ConfigError(
        "{}: the adapters of layer {} are of other modules than those of layer {}: Phalanx has the "
        "same in each layer that has any",
        path, layer, first);
  }
  for (const char* word : {"q", "k", "v", "qkv", "o", "gate", "up", "fc1", "down"}) {
    if (of_first.contains(word)) settings.targets.emplace_back(word);
  }
  if (std::ssize(words) == layers) return;
  for (const auto& [layer, of_layer] : words) settings.layers.push_back(layer);
}

}  // namespace

bool is_adapter_folder(const fs::path& directory) {
  std::error_code error;
  return fs::exists(directory / kAdapterConfigName, error) ||
         fs::exists(directory / kAdapterWeightsName, error);
}

AdapterFolder::AdapterFolder(const fs::path& directory, const ModelArguments& base)
    : directory_(existing_folder(directory)),
      config_(ConfigFile(directory / kAdapterConfigName),
              is_conv1d(adapter_modules(table_of(base)))),
      settings_(config_.settings) {
  const TensorTable table = table_of(base);
  const std::vector<AdapterModule> modules = adapter_modules(table);
  const MappedSafetensors file(directory / kAdapterWeightsName);
  const Reader reader(file, config_, modules, table);
  std::vector<const AdapterModule*> adapted;
  for (const AdapterModule& module : modules) {
    if (reader.stored().contains(module.name)) adapted.push_back(&module);
  }
  set_places(adapted, base.layers(), directory.string(), settings_);
  // Of one rank and scale for all: the largest rank, and the scale of the first module that has it.
  settings_.rank = 0;
  for (const AdapterModule* module : adapted) {
    if (config_.rank_of(module->name) <= settings_.rank) continue;
    settings_.rank = config_.rank_of(module->name);
    settings_.alpha = config_.alpha_of(module->name);
  }
  for (const AdapterModule* module : adapted) {
    const Stored& stored = reader.stored().find(module->name)->second;
    const std::int64_t rank = stored.a->shape[0];
    const double factor =
        config_.settings.scale_of(rank, config_.alpha_of(module->name)) / settings_.scale();
    if (factor != 1.0) scaled_.push_back(module->name);
    const LinearPart part = linear_part(base, module->linear, module->word);
    MemoryTensor a{.name = part.a_name(),
                   .shape = {settings_.rank, module->columns},
                   .values = reader.values(*stored.a)};
    a.values.resize(static_cast<std::size_t>(a.shape.count()));
    MemoryTensor b{.name = part.b_name(), .shape = {module->rows, settings_.rank}, .values = {}};
    b.values.resize(static_cast<std::size_t>(b.shape.count()));
    const std::vector<float> theirs = reader.values(*stored.b);
    for (const RowBlock& block : module->blocks) {
      for (std::int64_t row = 0; row < block.rows; ++row) {
        const auto ours = part.number_of(block.ours + row);
        PHALANX_CHECK(ours.has_value(), "{}: row {} is not of {}", module->name, row, part.word);
        for (std::int64_t r = 0; r < rank; ++r) {
          b.values[static_cast<std::size_t>(*ours * settings_.rank + r)] = static_cast<float>(
              factor * theirs[static_cast<std::size_t>((block.theirs + row) * rank + r)]);
        }
      }
    }
    tensors_.push_back(std::move(a));
    tensors_.push_back(std::move(b));
  }
  for (MemoryTensor& tensor : read_saved_modules(file, reader.whole(), table)) {
    settings_.trained.push_back(tensor.name);
    tensors_.push_back(std::move(tensor));
  }
}

}  // namespace phalanx::hugging_face
