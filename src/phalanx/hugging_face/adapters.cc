#include "phalanx/hugging_face/adapters.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/file.h"
#include "phalanx/checkpoint/checkpoint_writer.h"  // names of main parameters
#include "phalanx/checkpoint/safetensors.h"
#include "phalanx/checkpoint/staged_directory.h"
#include "phalanx/hugging_face/adapter_folder.h"
#include "phalanx/mesh/global_tensor.h"

namespace phalanx::hugging_face {
namespace {

constexpr std::string_view kEndOfA = ".A.weight";
const std::string kPrefix = "base_model.model.";

// A module of theirs with its factors.
struct WrittenModule {
  const AdapterModule* module = nullptr;
  std::int64_t rank = 0;
  std::vector<float> a, b;
};

// How the configuration names a module: by its last word, or its last two where modules without an
// adapter, or with another rank, have the same last word.
std::string target_name(const AdapterModule& module, const std::vector<AdapterModule>& all) {
  std::string last = module.last_name();
  const bool is_shared = std::ranges::any_of(all, [&](const AdapterModule& other) {
    return other.last_name() == last && other.word != module.word;
  });
  if (!is_shared) return last;
  const std::size_t before = module.name.rfind('.', module.name.rfind('.') - 1);
  return module.name.substr(before + 1);
}

template <typename Value>
void add_once(std::vector<Value>& values, Value value) {
  if (std::ranges::find(values, value) == values.end()) values.push_back(std::move(value));
}

WrittenAdapterConfig config_of(const AdapterSettings& settings,
                               const std::vector<WrittenModule>& written,
                               const std::vector<AdapterModule>& all) {
  WrittenAdapterConfig config{.settings = settings, .targets = {}};
  std::set<std::int64_t> layers, all_layers;
  for (const AdapterModule& module : all) all_layers.insert(module.layer);
  for (const WrittenModule& one : written) {
    const std::string name = target_name(*one.module, all);
    add_once(config.targets, name);
    layers.insert(one.module->layer);
    config.fan_in_fan_out = config.fan_in_fan_out || one.module->is_conv1d;
    if (one.rank == settings.rank) continue;
    // The scale stays what it is.
    const double ratio = static_cast<double>(one.rank) / static_cast<double>(settings.rank);
    add_once(config.ranks, {name, one.rank});
    add_once(config.alphas,
             {name, settings.alpha * (settings.rank_stabilized ? std::sqrt(ratio) : ratio)});
  }
  if (layers != all_layers) config.settings.layers.assign(layers.begin(), layers.end());
  return config;
}

void write_tensors(const std::filesystem::path& path, const std::vector<WrittenModule>& written,
                   const SavedModules& whole) {
  struct Factor {
    std::string name;
    Shape shape;
    const std::vector<float>* values = nullptr;
  };
  std::vector<Factor> factors;
  for (const WrittenModule& one : written) {
    const std::string module = kPrefix + one.module->name;
    factors.push_back({module + ".lora_A.weight", {one.rank, one.module->columns}, &one.a});
    factors.push_back({module + ".lora_B.weight", {one.module->rows, one.rank}, &one.b});
  }
  for (const SavedTensor& tensor : whole.tensors) {
    factors.push_back({kPrefix + tensor.name, tensor.shape, &tensor.values});
  }
  // As peft's files have them.
  std::ranges::sort(factors, {}, &Factor::name);
  std::vector<SafetensorsWriter::Item> items;
  for (const Factor& factor : factors) items.push_back({factor.name, DType::kF32, factor.shape});
  SafetensorsWriter writer(path, items, {{"format", "pt"}});
  for (const Factor& factor : factors) writer.write(std::as_bytes(std::span(*factor.values)));
  writer.commit();
}

}  // namespace

bool has_adapters(const CheckpointReader& checkpoint) {
  return std::ranges::any_of(checkpoint.manifest().tensors, [](const Manifest::Entry& entry) {
    return entry.name.find(kAdapterMark) != std::string::npos;
  });
}

Adapters::Adapters(const CheckpointReader& checkpoint, const ModelArguments& model)
    : settings_(AdapterSettings::of(model)) {
  for (const Manifest::Entry& entry : checkpoint.manifest().tensors) {
    const std::size_t mark = entry.name.find(kAdapterMark);
    if (mark == std::string::npos || entry.name.starts_with(kOptimizerPrefix) ||
        !entry.name.ends_with(kEndOfA)) {
      continue;
    }
    const std::size_t word = mark + kAdapterMark.size();
    const std::string linear = entry.name.substr(0, mark);
    Adapter adapter{
        .part = linear_part(model, linear,
                            entry.name.substr(word, entry.name.size() - word - kEndOfA.size())),
        .columns = entry.shape.rank() == 2 ? entry.shape[1] : 0,
        .a = {},
        .b = {}};
    const std::int64_t rank = settings_.rank;
    adapter.a = factor(checkpoint, adapter.part.a_name(), {rank, adapter.columns});
    adapter.b = factor(checkpoint, adapter.part.b_name(), {adapter.part.row_count(), rank});
    linears_[linear].push_back(std::move(adapter));
  }
}

std::vector<float> Adapters::factor(const CheckpointReader& checkpoint, const std::string& name,
                                    const Shape& shape) const {
  const Manifest::Entry* entry = checkpoint.find(std::string(kMainParamPrefix) + name);
  if (entry == nullptr) entry = checkpoint.find(name);
  if (entry == nullptr || entry->shape != shape || !is_floating(entry->dtype)) {
    throw DataError("{}: {} is {}, and the checkpoint's flags make it {}",
                    checkpoint.directory().string(), name,
                    entry == nullptr ? "missing" : entry->shape.to_string(), shape.to_string());
  }
  std::vector<float> values;
  values.reserve(static_cast<std::size_t>(shape.count()));
  checkpoint.visit(*entry, [&](std::span<const std::byte> bytes) {
    const std::size_t before = values.size();
    const auto count = std::ssize(bytes) / size_of(entry->dtype);
    values.resize(before + static_cast<std::size_t>(count));
    convert_elements(entry->dtype, bytes.data(), DType::kF32,
                     std::as_writable_bytes(std::span(values).subspan(before)).data(), count);
  });
  return values;
}

std::size_t Adapters::size() const {
  std::size_t count = 0;
  for (const auto& [linear, adapters] : linears_) count += adapters.size();
  return count;
}

void Adapters::add_to(const std::string& linear, const MatrixBox& box,
                      std::span<float> values) const {
  const auto found = linears_.find(linear);
  if (found == linears_.end()) return;
  const auto scale = static_cast<float>(settings_.scale());
  const auto columns = static_cast<std::size_t>(box.columns);
  std::vector<float> product(columns);
  for (const Adapter& adapter : found->second) {
    for (std::int64_t row = 0; row < box.rows; ++row) {
      const auto number = adapter.part.number_of(box.row + row);
      if (!number) continue;
      std::ranges::fill(product, 0.0F);
      for (std::int64_t r = 0; r < settings_.rank; ++r) {
        const float b = adapter.b[static_cast<std::size_t>(*number * settings_.rank + r)];
        const float* a = adapter.a.data() + r * adapter.columns + box.column;
        for (std::size_t column = 0; column < columns; ++column) product[column] += b * a[column];
      }
      float* to = values.data() + row * box.columns;
      for (std::size_t column = 0; column < columns; ++column)
        to[column] += scale * product[column];
    }
  }
}

std::size_t Adapters::write_folder(const std::filesystem::path& directory, const TensorTable& table,
                                   const SavedModules& whole) const {
  const std::vector<AdapterModule> modules = adapter_modules(table);
  std::vector<WrittenModule> written;
  for (const AdapterModule& module : modules) {
    const auto found = linears_.find(module.linear);
    if (found == linears_.end()) continue;
    const auto has_rows = [&](const Adapter& adapter) {
      return std::ranges::any_of(module.blocks, [&](const RowBlock& block) {
        for (std::int64_t row = 0; row < block.rows; ++row) {
          if (adapter.part.number_of(block.ours + row)) return true;
        }
        return false;
      });
    };
    std::vector<const Adapter*> of_module;
    for (const Adapter& adapter : found->second) {
      if (has_rows(adapter)) of_module.push_back(&adapter);
    }
    if (of_module.empty()) continue;
    const std::int64_t rank = settings_.rank;
    WrittenModule one{.module = &module, .rank = rank * std::ssize(of_module), .a = {}, .b = {}};
    one.b.resize(static_cast<std::size_t>(module.rows * one.rank));
    for (std::size_t i = 0; i < of_module.size(); ++i) {
      const Adapter& adapter = *of_module[i];
      one.a.insert(one.a.end(), adapter.a.begin(), adapter.a.end());
      for (const RowBlock& block : module.blocks) {
        for (std::int64_t row = 0; row < block.rows; ++row) {
          const auto number = adapter.part.number_of(block.ours + row);
          if (!number) continue;
          const std::int64_t to =
              (block.theirs + row) * one.rank + static_cast<std::int64_t>(i) * rank;
          std::copy_n(adapter.b.begin() + *number * rank, rank, one.b.begin() + to);
        }
      }
    }
    written.push_back(std::move(one));
  }
  for (const WrittenModule& one : written) {
    if (std::ranges::find(whole.names, one.module->name) == whole.names.end()) continue;
    throw ConfigError(
        "--lora-only: {} was trained whole and has an adapter too, and peft has one of both: "
        "--merge-lora exports the whole model",
        one.module->name);
  }
  WrittenAdapterConfig config = config_of(settings_, written, modules);
  config.whole = whole.names;
  config.whole_are_tied = whole.are_tied;
  StagedDirectory staging(directory, "--output");
  write_file_durably(staging.path() / kAdapterConfigName, adapter_config_json(config));
  write_tensors(staging.path() / kAdapterWeightsName, written, whole);
  staging.commit();
  return written.size();
}

}  // namespace phalanx::hugging_face
