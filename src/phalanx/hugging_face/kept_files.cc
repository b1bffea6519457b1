#include "phalanx/hugging_face/kept_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <system_error>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/file.h"
#include "phalanx/base/lfs_pointer.h"
#include "phalanx/base/numeric.h"
#include "phalanx/hugging_face/folder.h"

namespace phalanx::hugging_face {
namespace {

namespace fs = std::filesystem;

// The flag of import that named the folder.
constexpr const char* kFlag = "--input";
// The flag under which a run with conversations keeps the template that it was trained with.
constexpr std::string_view kTemplateFlag = "--chat-template";

// Weights, in whatever form; pages and pictures; programs.
constexpr auto kOtherEndings = std::to_array<std::string_view>(
    {".safetensors", ".bin",    ".pt",     ".pth",        ".ckpt",      ".pkl",  ".pickle",
     ".h5",          ".hdf5",   ".keras",  ".pb",         ".onnx",      ".gguf", ".ggml",
     ".ot",          ".npy",    ".npz",    ".msgpack",    ".onnx_data", ".nemo", ".tflite",
     ".mlmodel",     ".engine", ".distcp", ".index.json", ".tar",       ".gz",   ".xz",
     ".zst",         ".zip",    ".7z",     ".md",         ".rst",       ".html", ".pdf",
     ".ipynb",       ".png",    ".jpg",    ".jpeg",       ".gif",       ".svg",  ".webp",
     ".py",          ".pyc",    ".sh",     ".so",         ".dll",       ".exe",  "_results.json"});
constexpr auto kOtherBeginnings = std::to_array<std::string_view>(
    {"readme", "license", "licence", "notice", "copying", "use_policy", "requirements"});
// An adapter's configuration would make transformers look for its weights.
constexpr auto kOtherNames = std::to_array<std::string_view>(
    {kConfigName, kGenerationName, "trainer_state.json", "adapter_config.json"});

std::string in_small_letters(std::string_view name) {
  std::string small(name);
  for (char& c : small) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + ('a' - 'A'));
  }
  return small;
}

// Whether a link leads to a file of the folder, or of the cache that `huggingface_hub` keeps:
// snapshots/REVISION/NAME is a link to ../../blobs/DIGEST there.
bool stays_inside(const fs::path& link, const fs::path& folder) {
  std::error_code error;
  const fs::path target = fs::canonical(link, error).parent_path();
  if (error) return false;
  return target == fs::canonical(folder, error) ||
         target == fs::weakly_canonical(folder / ".." / ".." / "blobs", error);
}

}  // namespace

bool is_kept_name(std::string_view name) {
  const std::string small = in_small_letters(name);
  const auto ends = [&](std::string_view ending) { return small.ends_with(ending); };
  const auto begins = [&](std::string_view beginning) { return small.starts_with(beginning); };
  return is_copy_name(name) && std::ranges::none_of(kOtherEndings, ends) &&
         std::ranges::none_of(kOtherBeginnings, begins) &&
         std::ranges::find(kOtherNames, small) == kOtherNames.end();
}

KeptFiles read_kept_files(const fs::path& folder, const std::set<std::string>& others) {
  KeptFiles kept;
  std::map<std::string, fs::directory_entry> entries;  // by name, whatever the order on disk
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    std::error_code unknown;
    const bool is_file = entry->is_regular_file(unknown);
    if (is_file && is_kept_name(name) && !others.contains(name)) entries.emplace(name, *entry);
  }
  if (error) throw IoError("{}: cannot be listed: {}", folder.string(), error.message());
  std::int64_t bytes_in_all = 0;
  for (const auto& item : entries) {
    const fs::directory_entry& entry = item.second;
    const auto leave_out = [&](std::string reason) {
      kept.left_out.push_back({item.first, std::move(reason)});
    };
    const auto bytes = static_cast<std::int64_t>(entry.file_size(error));
    if (entry.is_symlink() && !stays_inside(entry.path(), folder)) {
      leave_out("a link that leads out of the folder");
    } else if (error || bytes > kMostKeptBytes) {
      leave_out(fmt::format("larger than {}", format_bytes(kMostKeptBytes)));
    } else if (bytes_in_all + bytes > kMostKeptInAll || kept.files.size() == kMostKeptFiles) {
      leave_out(fmt::format("beyond {} files or {}", kMostKeptFiles, format_bytes(kMostKeptInAll)));
    } else {
      InputCopy copy{.name = item.first, .bytes = read_file(entry.path())};
      refuse_lfs_pointer(entry.path(), copy.bytes);
      bytes_in_all += std::ssize(copy.bytes);
      kept.files.push_back(std::move(copy));
    }
  }
  return kept;
}

Manifest::InputFile describe_kept_file(const fs::path& folder, const InputCopy& copy) {
  return describe_input_copy(kFlag, folder / copy.name, copy);
}

std::vector<Manifest::InputFile> kept_files_of(std::span<const Manifest::InputFile> files) {
  std::vector<Manifest::InputFile> kept;
  for (const Manifest::InputFile& file : files) {
    const bool is_kept = file.flag == kFlag || file.flag == kTemplateFlag;
    if (is_kept && is_kept_name(file.copy)) kept.push_back(file);
  }
  return kept;
}

std::vector<InputCopy> read_kept_files(const CheckpointReader& checkpoint) {
  std::vector<InputCopy> copies;
  for (const Manifest::InputFile& file : kept_files_of(checkpoint.manifest().input_files)) {
    copies.push_back({.name = file.copy, .bytes = read_file(checkpoint.directory() / file.copy)});
  }
  return copies;
}

}  // namespace phalanx::hugging_face
