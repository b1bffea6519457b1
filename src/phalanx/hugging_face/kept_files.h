#pragma once
// The files of a folder that Phalanx does not understand and transformers may: chat templates, maps
// of special tokens, vocabularies in other forms. An imported checkpoint keeps them byte for byte
// among its copies of input files, training passes them on, and export writes them again.

#include <cstdint>
#include <filesystem>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/checkpoint/checkpoint_reader.h"
#include "phalanx/checkpoint/input_file.h"

namespace phalanx::hugging_face {

inline constexpr std::int64_t kMostKeptBytes = std::int64_t{16} << 20;  // of a file
inline constexpr std::int64_t kMostKeptInAll = std::int64_t{64} << 20;  // of all
inline constexpr std::size_t kMostKeptFiles = 64;

// Whether a file of this name is kept. Not kept are: names that a copy in a checkpoint cannot have;
// config.json and generation_config.json, which are written anew; weights of any format and their
// indices; pages of the repository (README, LICENSE, *.md, pictures); programs; what a training
// left behind.
bool is_kept_name(std::string_view name);

struct KeptFiles {
  struct LeftOut {
    std::string name, reason;
  };
  std::vector<InputCopy> files;  // by name
  // Files that would be kept by their names and are too large.
  std::vector<LeftOut> left_out;
};
// Reads the files to keep of a folder (not of its subfolders), except names in `others`. Links are
// followed within the folder, and to the blobs of the hub's cache. InputMissingError for a Git LFS
// pointer.
KeptFiles read_kept_files(const std::filesystem::path& folder, const std::set<std::string>& others);

// The manifest's entry of a kept file, by which it is found again.
Manifest::InputFile describe_kept_file(const std::filesystem::path& folder, const InputCopy& copy);
// The kept files, and a chat template that was trained with, among the input files of a checkpoint.
std::vector<Manifest::InputFile> kept_files_of(std::span<const Manifest::InputFile> files);
std::vector<InputCopy> read_kept_files(const CheckpointReader& checkpoint);

}  // namespace phalanx::hugging_face
