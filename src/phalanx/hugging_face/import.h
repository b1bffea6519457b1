#pragma once
// A folder of Hugging Face's as a model of ours: which flags it has, and which of its tensors go
// where.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "phalanx/hugging_face/architecture.h"
#include "phalanx/hugging_face/folder.h"
#include "phalanx/hugging_face/tensor_stream.h"

namespace phalanx::hugging_face {

// Where a folder's tensors go. Making it checks everything but the tokenizer; tensors keep the type
// that they are stored in (fused ones of several types take the wider one, f64 becomes f32).
class Import {
 public:
  // Errors as Folder and architecture_of() have them; DataError where a tensor is missing, comes
  // twice or has another shape or type than config.json asks for, where twins differ, and, unless
  // they are to be ignored, where there are tensors that no table has.
  explicit Import(const std::filesystem::path& directory, bool ignore_unexpected = false);

  const Folder& folder() const { return folder_; }
  const Architecture& architecture() const { return *architecture_; }
  // The model as flags; whoever knows its tokenizer adds the tokenizer's.
  const ModelArguments& settings() const { return settings_; }
  const TensorTable& table() const { return table_; }
  std::int64_t parameters() const;
  // Tensors of the folder that have no place, by their names there.
  const std::vector<std::string>& dropped() const { return dropped_; }

  // By the number of the row.
  DType dtype(std::size_t row) const { return dtypes_[row]; }
  std::vector<StoredTensor> parts(std::size_t row) const;

 private:
  void read_tokens();
  void keep_generation();
  void check_layers() const;
  void place_tensors(bool ignore_unexpected);
  void place(const TensorRow& row);
  bool is_dropped(const std::string& name, const FolderTensor& tensor) const;

  Folder folder_;
  const Architecture* architecture_;
  ModelArguments settings_;
  TensorTable table_;
  std::map<std::string, FolderTensor, std::less<>> stored_;  // by canonical name
  std::vector<DType> dtypes_;
  std::vector<std::string> dropped_;
};

}  // namespace phalanx::hugging_face
