#pragma once
// A folder as transformers' save_pretrained() writes it: config.json and weights in safetensors
// files, one or several with an index. Opening it checks all that the headers say.

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/checkpoint/safetensors.h"
#include "phalanx/hugging_face/config_file.h"

namespace phalanx::hugging_face {

inline constexpr std::string_view kConfigName = "config.json";
inline constexpr std::string_view kGenerationName = "generation_config.json";
inline constexpr std::string_view kWeightsName = "model.safetensors";
inline constexpr std::string_view kIndexName = "model.safetensors.index.json";

// A tensor of the folder.
struct FolderTensor {
  const MappedSafetensors* file = nullptr;
  const SafetensorsEntry* entry = nullptr;

  std::span<const std::byte> bytes() const { return file->bytes(*entry); }
  // Whether type, shape and every byte are equal.
  bool is_equal(const FolderTensor& other) const;
};

class Folder {
 public:
  // InputMissingError if the folder, config.json, the weights (pickles do not count) or a file that
  // the index names is missing; DataError if a file is malformed, or the index and the files
  // contradict each other.
  explicit Folder(std::filesystem::path directory);

  const std::filesystem::path& directory() const { return directory_; }
  const ConfigFile& config() const { return *config_; }
  // generation_config.json, if it is there and can be read.
  const std::optional<ConfigFile>& generation() const { return generation_; }
  const std::map<std::string, FolderTensor, std::less<>>& tensors() const { return tensors_; }
  // The number of files with weights.
  const std::vector<std::unique_ptr<MappedSafetensors>>& files() const { return files_; }

 private:
  void read_generation(const std::filesystem::path& path);
  void open_weights();
  void open_index(const std::filesystem::path& path);

  std::filesystem::path directory_;
  std::optional<ConfigFile> config_;
  std::optional<ConfigFile> generation_;
  std::vector<std::unique_ptr<MappedSafetensors>> files_;
  std::map<std::string, FolderTensor, std::less<>> tensors_;
};

}  // namespace phalanx::hugging_face
