#pragma once
// Whole modules in a folder of adapters: those that peft's modules_to_save names, word tables and
// norms for example. They stand in the place of the base's.

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/checkpoint/checkpoint_reader.h"
#include "phalanx/checkpoint/memory_tensors.h"
#include "phalanx/checkpoint/safetensors.h"
#include "phalanx/hugging_face/tensor_table.h"

namespace phalanx::hugging_face {

// Tensors of such modules by their names in the base model, "model.embed_tokens.weight".
using WholeTensors = std::map<std::string, const SafetensorsEntry*, std::less<>>;

// Whether the base has a tensor of this name, the twin of a tied one included.
bool is_of_base(const TensorTable& table, std::string_view name);

// Our tensors that they make. `file` opens every message. DataError for another shape or type, and
// for twins that differ; ConfigError where the folder has a part of a tensor of ours alone, or one
// of two tied tensors, which peft would no longer tie.
std::vector<MemoryTensor> read_saved_modules(const MappedSafetensors& file,
                                             const WholeTensors& whole, const TensorTable& table);

// A tensor of theirs as it is written.
struct SavedTensor {
  std::string name;
  Shape shape;
  std::vector<float> values;
};
struct SavedModules {
  std::vector<std::string> names;  // as modules_to_save has them: whole ones, so none means another
  std::vector<SavedTensor> tensors;
  bool are_tied = false;  // two of them are one parameter
};
// The modules that have the trained tensors (our names), in fp32: from the main parameters if the
// checkpoint has them. ConfigError if one has no place in the table.
SavedModules written_modules(const CheckpointReader& checkpoint,
                             const std::vector<std::string>& trained, const TensorTable& table);

}  // namespace phalanx::hugging_face
