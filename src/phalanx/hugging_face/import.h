#pragma once
// A folder of Hugging Face's as a model of ours: which flags it has, and which of its tensors go
// where.

#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "phalanx/hugging_face/architecture.h"
#include "phalanx/hugging_face/folder.h"
#include "phalanx/hugging_face/tensor_stream.h"

namespace phalanx::hugging_face {

// The plan of an import: where the folder's tensors go. The constructor checks everything except
// the tokenizer. Tensors keep the type in which they are stored (a fused one of several types gets
// the widest, f64 becomes f32).
class Import {
 public:
  // The errors of Folder and architecture_of(); DataError if a tensor is missing, comes twice, or
  // has another shape or type than config.json asks for, if twins differ, and, unless they are to
  // be ignored, if there are tensors that the table does not have.
  explicit Import(const std::filesystem::path& directory, bool ignore_unexpected = false);

  const Folder& folder() const { return folder_; }
  const Architecture& architecture() const { return *architecture_; }
  // The model as flags; the caller adds those of the tokenizer.
  const ModelArguments& settings() const { return settings_; }
  const TensorTable& table() const { return table_; }
  std::int64_t parameters() const;
  // Tensors of the folder that are not imported, by their names there.
  const std::vector<std::string>& dropped() const { return dropped_; }

  // By the number of the row in the table.
  DType dtype(std::size_t row) const { return dtypes_[row]; }
  std::vector<StoredTensor> parts(std::size_t row) const;

 private:
  void read_tokens();
  void keep_generation();
  void check_decoder_start() const;
  void check_sizes() const;
  void place_tensors(bool ignore_unexpected);
  void split_joined();
  void split(const JoinedTensor& joined, const FolderTensor& stored);
  void place(const TensorRow& row);
  bool is_dropped(const std::string& name, const FolderTensor& tensor) const;

  Folder folder_;
  const Architecture* architecture_;
  ModelArguments settings_;
  TensorTable table_;
  std::map<std::string, FolderTensor, std::less<>> stored_;  // by canonical name
  std::deque<SafetensorsEntry> pieces_;                      // of joined tensors
  std::vector<DType> dtypes_;
  std::vector<std::string> dropped_;
};

}  // namespace phalanx::hugging_face
