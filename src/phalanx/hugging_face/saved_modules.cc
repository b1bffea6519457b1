#include "phalanx/hugging_face/saved_modules.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <span>

#include "phalanx/base/error.h"
#include "phalanx/checkpoint/checkpoint_writer.h"  // names of main parameters
#include "phalanx/hugging_face/tensor_stream.h"

namespace phalanx::hugging_face {
namespace {

std::string module_of(const std::string& tensor) { return tensor.substr(0, tensor.rfind('.')); }

// The tensor that is tied to the one of this name; "": none.
std::string twin_of(const TensorTable& table, std::string_view name) {
  const auto found = std::ranges::find(table.dropped, name, &DroppedTensor::twin);
  return found == table.dropped.end() ? std::string() : found->name;
}

bool are_equal(const MappedSafetensors& file, const SafetensorsEntry& a,
               const SafetensorsEntry& b) {
  return a.type == b.type && a.shape == b.shape && std::ranges::equal(file.bytes(a), file.bytes(b));
}

class Reader {
 public:
  Reader(const MappedSafetensors& file, const WholeTensors& whole, const TensorTable& table)
      : file_(file), path_(file.path().string()), whole_(whole), table_(table) {}

  std::vector<MemoryTensor> tensors() const {
    for (const DroppedTensor& dropped : table_.dropped) {
      if (!dropped.twin.empty()) check_twins(dropped);
    }
    std::vector<MemoryTensor> tensors;
    for (const TensorRow& row : table_.rows) {
      const auto is_there = [&](const TensorPart& part) { return whole_.contains(part.name); };
      if (std::ranges::none_of(row.parts, is_there)) continue;
      tensors.push_back(tensor_of(row));
    }
    return tensors;
  }

 private:
  void check_twins(const DroppedTensor& dropped) const {
    const auto one = whole_.find(dropped.twin);
    const auto other = whole_.find(dropped.name);
    if (one == whole_.end() && other == whole_.end()) return;
    if (one == whole_.end() || other == whole_.end()) {
      throw ConfigError(
          "{}: the base ties {} and {}, and the folder has one of them: in peft the other stays "
          "the base's, which is no model of Phalanx. Save both (modules_to_save, "
          "ensure_weight_tying)",
          path_, dropped.twin, dropped.name);
    }
    if (are_equal(file_, *one->second, *other->second)) return;
    throw ConfigError(
        "{}: the base ties {} and {}, and they differ here: a model that unties them is not "
        "supported",
        path_, dropped.twin, dropped.name);
  }

  MemoryTensor tensor_of(const TensorRow& row) const {
    std::vector<StoredTensor> parts;
    for (const TensorPart& part : row.parts) {
      const auto found = whole_.find(part.name);
      if (found == whole_.end()) {
        throw ConfigError(
            "{}: has whole modules, but not {}: Phalanx keeps and trains it together with {}",
            path_, part.name, row.parts.front().name);
      }
      const SafetensorsEntry& entry = *found->second;
      if (entry.shape != part.shape) {
        throw DataError("{}: tensor {} is {}, but in this base model it is {}", path_, entry.name,
                        entry.shape.to_string(), part.shape.to_string());
      }
      parts.push_back({.dtype = *entry.dtype, .bytes = file_.bytes(entry)});
    }
    MemoryTensor tensor{.name = row.name, .shape = row.shape, .values = {}};
    tensor.values.reserve(static_cast<std::size_t>(row.shape.count()));
    visit_ours(row, parts, DType::kF32, [&](std::span<const std::byte> bytes) {
      const std::size_t before = tensor.values.size();
      tensor.values.resize(before + bytes.size() / sizeof(float));
      std::memcpy(tensor.values.data() + before, bytes.data(), bytes.size());
    });
    return tensor;
  }

  const MappedSafetensors& file_;
  std::string path_;
  const WholeTensors& whole_;
  const TensorTable& table_;
};

std::vector<float> values_of(const CheckpointReader& checkpoint, const TensorRow& row,
                             const TensorPart& part) {
  const Manifest::Entry* entry = checkpoint.find(std::string(kMainParamPrefix) + row.name);
  if (entry == nullptr) entry = checkpoint.find(row.name);
  if (entry == nullptr || entry->shape != row.shape || !is_floating(entry->dtype)) {
    throw DataError("{}: {} is {}, and the checkpoint's flags make it {}",
                    checkpoint.directory().string(), row.name,
                    entry == nullptr ? "missing" : entry->shape.to_string(), row.shape.to_string());
  }
  const OurTensor ours{.dtype = entry->dtype,
                       .read = [&](std::int64_t first, std::int64_t rows, std::int64_t column,
                                   std::int64_t columns, std::span<std::byte> to) {
                         // As a matrix a vector is one row.
                         const MatrixBox box = entry->shape.rank() == 1
                                                   ? MatrixBox{0, first, 1, rows}
                                                   : MatrixBox{first, column, rows, columns};
                         checkpoint.read_box(*entry, box, to);
                       }};
  std::vector<float> values;
  values.reserve(static_cast<std::size_t>(part.shape.count()));
  visit_theirs(row, part, ours, DType::kF32, [&](std::span<const std::byte> bytes) {
    const std::size_t before = values.size();
    values.resize(before + bytes.size() / sizeof(float));
    std::memcpy(values.data() + before, bytes.data(), bytes.size());
  });
  return values;
}

}  // namespace

bool is_of_base(const TensorTable& table, std::string_view name) {
  const auto is_twin = [&](const DroppedTensor& dropped) {
    return !dropped.twin.empty() && dropped.name == name;
  };
  return std::ranges::any_of(table.dropped, is_twin) ||
         std::ranges::any_of(table.rows, [&](const TensorRow& row) {
           return std::ranges::find(row.parts, name, &TensorPart::name) != row.parts.end();
         });
}

std::vector<MemoryTensor> read_saved_modules(const MappedSafetensors& file,
                                             const WholeTensors& whole, const TensorTable& table) {
  return Reader(file, whole, table).tensors();
}

SavedModules written_modules(const CheckpointReader& checkpoint,
                             const std::vector<std::string>& trained, const TensorTable& table) {
  std::set<std::string> modules;
  for (const std::string& name : trained) {
    const auto row = std::ranges::find(table.rows, name, &TensorRow::name);
    if (row == table.rows.end()) {
      throw ConfigError("{}: {} was trained, and has no place in a folder of peft's",
                        checkpoint.directory().string(), name);
    }
    for (const TensorPart& part : row->parts) modules.insert(module_of(part.name));
  }
  SavedModules saved;
  for (const TensorRow& row : table.rows) {
    for (const TensorPart& part : row.parts) {
      if (!modules.contains(module_of(part.name))) continue;
      saved.tensors.push_back({part.name, part.shape, values_of(checkpoint, row, part)});
      const std::string twin = twin_of(table, part.name);
      if (twin.empty()) continue;
      saved.are_tied = true;
      modules.insert(module_of(twin));
      saved.tensors.push_back({twin, part.shape, saved.tensors.back().values});
    }
  }
  saved.names.assign(modules.begin(), modules.end());
  return saved;
}

}  // namespace phalanx::hugging_face
