#pragma once
// `phalanx export hf`: a checkpoint's weights as a folder that transformers loads.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "phalanx/checkpoint/checkpoint_reader.h"
#include "phalanx/checkpoint/input_file.h"
#include "phalanx/hugging_face/architecture.h"

namespace phalanx::hugging_face {

inline constexpr std::int64_t kMaxShardBytes = 5'000'000'000;

struct ExportOptions {
  std::optional<DType> dtype = std::nullopt;      // f32, bf16, f16; empty: as they are stored
  std::int64_t max_shard_bytes = kMaxShardBytes;  // tensors are never cut
  std::vector<InputCopy> files = {};  // other files for the folder, such as a tokenizer's
  std::function<bool()> stop_requested = nullptr;
};

class Adapters;

// A checkpoint with the tensors of their model.
class Export {
 public:
  // `settings`: every flag of the resolved model, its family and its vocabulary. If another type is
  // wanted and there are main parameters, values are taken from these: the reader must have
  // verified them. ConfigError if the model is not of the architecture, or the checkpoint has other
  // tensors than the architecture. `merged`: adapters that are added to the weights, in fp32; the
  // sums are rounded once. Null: the checkpoint may have none.
  Export(const CheckpointReader& checkpoint, ModelArguments settings,
         const Architecture& architecture, std::optional<DType> dtype,
         const Adapters* merged = nullptr);

  const Architecture& architecture() const { return architecture_; }
  std::int64_t parameters() const;
  std::size_t tensors() const { return tensors_.size(); }
  std::string config_json() const;
  std::string generation_json() const;

  // Writes a directory that appears when it is complete. False if asked to stop: then nothing is
  // written.
  bool write(const std::filesystem::path& directory, const ExportOptions& options) const;

 private:
  nlohmann::json config() const;

  // One of their tensors.
  struct Tensor {
    const TensorRow* row = nullptr;
    const TensorPart* part = nullptr;
    const Manifest::Entry* entry = nullptr;  // the entry of our tensor
    DType dtype = DType::kF32;               // as it is written
    std::int64_t bytes() const { return part->shape.count() * size_of(dtype); }
  };
  using Shard = std::vector<const Tensor*>;

  const Manifest::Entry& entry_of(const TensorRow& row, std::optional<DType> dtype) const;
  void check_surplus() const;
  void read_merged(const Tensor& tensor, const MatrixBox& box, std::span<std::byte> to) const;
  std::vector<Shard> shards(std::int64_t max_bytes) const;
  void write_shard(const std::filesystem::path& path, Shard shard,
                   const ExportOptions& options) const;
  void write_weights(const std::filesystem::path& directory, const ExportOptions& options) const;

  const CheckpointReader& checkpoint_;
  ModelArguments settings_;
  const Architecture& architecture_;
  const Adapters* merged_;
  TensorTable table_;
  std::vector<Tensor> tensors_;  // in the order of their model
};

// The number of ids of a checkpoint's word table. ConfigError if it has no table.
std::int64_t vocabulary_of(const CheckpointReader& checkpoint);

}  // namespace phalanx::hugging_face
