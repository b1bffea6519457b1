#include "phalanx/checkpoint/memory_tensors.h"

#include <cstring>
#include <map>
#include <utility>

#include "phalanx/base/error.h"

namespace phalanx {
namespace {

class MemoryTensors final : public StoredTensors {
 public:
  explicit MemoryTensors(std::vector<MemoryTensor> tensors) {
    for (MemoryTensor& tensor : tensors) values_[tensor.name] = std::move(tensor.values);
  }

  void read(const Manifest::Entry& entry, const MatrixBox& box,
            std::span<std::byte> to) const override {
    check_read(entry, box, to);
    const std::vector<float>& values = values_.find(entry.name)->second;
    const std::int64_t columns = matrix_columns(entry.shape);
    const auto bytes = static_cast<std::size_t>(box.columns * size_of(DType::kF32));
    for (std::int64_t row = 0; row < box.rows; ++row) {
      std::memcpy(to.data() + static_cast<std::size_t>(row) * bytes,
                  values.data() + (box.row + row) * columns + box.column, bytes);
    }
  }

  std::vector<StoredUnit> units(std::span<const Manifest::Entry* const> wanted) const override {
    std::vector<StoredUnit> units;
    for (const Manifest::Entry* entry : wanted) {
      StoredUnit unit;
      for_pieces(whole_box(entry->shape), kReadBytes / size_of(DType::kF32),
                 [&](const MatrixBox& piece) {
                   unit.push_back({.number = std::ssize(unit),
                                   .bytes = piece.count() * size_of(DType::kF32),
                                   .pieces = {{.entry = entry, .box = piece}}});
                 });
      if (!unit.empty()) units.push_back(std::move(unit));
    }
    return units;
  }

  std::unique_ptr<ChunkReader> chunk_reader() const override {
    return std::make_unique<Chunks>(*this);
  }
  void verify_all() const override {}

 private:
  class Chunks final : public ChunkReader {
   public:
    explicit Chunks(const MemoryTensors& tensors) : tensors_(tensors) {}
    void read(const StoredChunk& chunk, std::span<std::byte> to) override {
      tensors_.read(*chunk.pieces.front().entry, chunk.pieces.front().box, to);
    }

   private:
    const MemoryTensors& tensors_;
  };

  std::map<std::string, std::vector<float>, std::less<>> values_;
};

}  // namespace

std::shared_ptr<const CheckpointReader> reader_of(std::vector<MemoryTensor> tensors) {
  Manifest manifest;
  for (const MemoryTensor& tensor : tensors) {
    PHALANX_CHECK(std::ssize(tensor.values) == tensor.shape.count(), "{}: {} values for {}",
                  tensor.name, tensor.values.size(), tensor.shape.to_string());
    manifest.tensors.push_back(
        {.name = tensor.name, .dtype = DType::kF32, .shape = tensor.shape, .file = {}});
  }
  return std::make_shared<const CheckpointReader>(
      std::move(manifest), std::make_unique<const MemoryTensors>(std::move(tensors)));
}

}  // namespace phalanx
