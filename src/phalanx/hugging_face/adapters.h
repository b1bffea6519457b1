#pragma once
// The low-rank adapters of a checkpoint: written as a folder of peft's, or added to the weights
// that they are of.

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/checkpoint/checkpoint_reader.h"
#include "phalanx/hugging_face/adapter_config.h"
#include "phalanx/hugging_face/adapter_places.h"
#include "phalanx/hugging_face/saved_modules.h"
#include "phalanx/mesh/matrix_box.h"

namespace phalanx::hugging_face {

// Whether a checkpoint has adapters.
bool has_adapters(const CheckpointReader& checkpoint);

class Adapters {
 public:
  // Reads all of them into memory, in fp32: from the main parameters if the checkpoint has them.
  // `model`: its flags, those of the adapters too. DataError if a factor is missing or has another
  // shape than the flags ask for.
  Adapters(const CheckpointReader& checkpoint, const ModelArguments& model);

  const AdapterSettings& settings() const { return settings_; }
  std::size_t size() const;  // of parts that have an adapter
  bool are_of(const std::string& linear) const { return linears_.contains(linear); }
  // Adds scale x B A to a part of a linear's weight: `values` are those of the box, row-major.
  void add_to(const std::string& linear, const MatrixBox& box, std::span<float> values) const;

  // Writes a folder, adapter_config.json and adapter_model.safetensors, into a directory that
  // appears when it is complete. `table`: of the model's architecture. A module of theirs that is
  // several parts of ours gets one adapter of the ranks' sum; a part of ours that is several
  // modules gets copies of A. `whole`: modules that were trained whole; ConfigError if one has an
  // adapter too. Returns the number of modules with adapters.
  std::size_t write_folder(const std::filesystem::path& directory, const TensorTable& table,
                           const SavedModules& whole = {}) const;

 private:
  struct Adapter {
    LinearPart part;
    std::int64_t columns = 0;  // of the linear
    std::vector<float> a, b;   // [rank, columns], [rows of the part, rank]
  };

  std::vector<float> factor(const CheckpointReader& checkpoint, const std::string& name,
                            const Shape& shape) const;

  AdapterSettings settings_;
  std::map<std::string, std::vector<Adapter>, std::less<>> linears_;
};

}  // namespace phalanx::hugging_face
