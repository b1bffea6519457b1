#pragma once
// For tests: a checkpoint in parts that one process writes for many ranks.

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "phalanx/checkpoint/box_copy.h"
#include "phalanx/checkpoint/checkpoint_writer.h"
#include "phalanx/checkpoint/part_writer.h"
#include "phalanx/mesh/global_tensor.h"

namespace phalanx::testing_support {

// What one rank writes: parts of tensors.
using Pieces = std::vector<GlobalTensor>;

// Cuts tensors that are whole here: each rank gets ranges of `step` elements in turn. They begin
// and end amid rows.
inline std::vector<Pieces> cut_for_ranks(std::span<const GlobalTensor> tensors, int ranks,
                                         std::int64_t step) {
  std::vector<Pieces> pieces(static_cast<std::size_t>(ranks));
  std::size_t turn = 0;
  for (const GlobalTensor& tensor : tensors) {
    ParamSpec spec;
    spec.name = tensor.name;
    spec.global_shape = tensor.global_shape;
    spec.local_shape = tensor.local.shape;
    spec.boxes = tensor.boxes;
    for (std::int64_t begin = 0; begin < tensor.local.count(); begin += step) {
      const std::int64_t count = std::min(step, tensor.local.count() - begin);
      const Tensor flat = tensor.local.reshape({tensor.local.count()});
      GlobalTensor part = shard_tensor(spec, flat.slice(0, begin, count), begin);
      if (!part.boxes.empty()) pieces[turn++ % pieces.size()].push_back(std::move(part));
    }
  }
  return pieces;
}

class TestParts final : public CheckpointContent {
 public:
  TestParts(std::span<const GlobalTensor> tensors, std::vector<Pieces> pieces)
      : tensors_(tensors.begin(), tensors.end()), pieces_(std::move(pieces)) {}

  std::string epoch = "0123456789abcdef0123456789abcdef.1.1";
  std::function<std::string(int rank)> epoch_of = nullptr;  // if a rank has another one
  // Blocks of one sector, so that small files have several.
  StorageOptions options = {.block_bytes = kStorageAlignment, .queue_depth = 3, .threads = 1};
  // Tensors that are not stored, and from which each is rounded.
  std::vector<std::pair<GlobalTensor, std::string>> rounded = {};

  std::int64_t bytes() const override { return 0; }
  void write(const std::filesystem::path& directory, Manifest& manifest,
             const std::function<void(std::string_view)>& /*step*/) override {
    for (const auto& [tensor, source] : rounded) {
      manifest.tensors.push_back({.name = tensor.name,
                                  .dtype = tensor.local.dtype,
                                  .shape = tensor.global_shape,
                                  .file = {},
                                  .rounded_from = source});
    }
    for (const GlobalTensor& tensor : tensors_) {
      manifest.tensors.push_back({.name = tensor.name,
                                  .dtype = tensor.local.dtype,
                                  .shape = tensor.global_shape,
                                  .file = {}});
    }
    manifest.epoch = epoch;
    for (std::size_t rank = 0; rank < pieces_.size(); ++rank) {
      const auto number = static_cast<int>(rank);
      manifest.parts.push_back(write_part(directory, number, pieces_[rank]));
    }
  }

 private:
  Manifest::Part write_part(const std::filesystem::path& directory, int rank,
                            const Pieces& pieces) const {
    std::vector<PartWriter::Piece> plan;
    for (const GlobalTensor& part : pieces) {
      plan.push_back({part.name, part.local.dtype, {}});
      for (const ParamBox& box : part.boxes) plan.back().boxes.push_back(global_box(box));
    }
    PartWriter writer(directory, epoch_of ? epoch_of(rank) : epoch, rank, plan, options);
    for (const GlobalTensor& part : pieces) {
      const std::int64_t rows = 2 * matrix_rows(part.global_shape);  // tests move boxes outside
      std::vector<std::byte> packed(
          static_cast<std::size_t>(packed_bytes(part.boxes, part.local.dtype, 0, rows)));
      pack_rows(part, 0, rows, packed.data());
      writer.write(packed);
    }
    return writer.finish();
  }

  std::vector<GlobalTensor> tensors_;
  std::vector<Pieces> pieces_;
};

}  // namespace phalanx::testing_support
