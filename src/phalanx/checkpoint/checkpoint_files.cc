#include "phalanx/checkpoint/checkpoint_files.h"

#include <utility>

namespace phalanx {
namespace {

class FilesOfDirectory final : public CheckpointFiles {
 public:
  explicit FilesOfDirectory(std::filesystem::path directory) : directory_(std::move(directory)) {}

  std::string place() const override { return directory_.string(); }
  std::string path(std::string_view name) const override { return (directory_ / name).string(); }
  StoredFile open(std::string_view name) const override {
    return StoredFile(RandomAccessFile(directory_ / name));
  }

 private:
  std::filesystem::path directory_;
};

}  // namespace

StoredFile::StoredFile(RandomAccessFile file)
    : file_(std::move(file)), bytes_(file_.size()), name_(file_.path().string()) {}

StoredFile::StoredFile(RandomAccessFile file, std::int64_t begin, std::int64_t bytes,
                       std::string name)
    : file_(std::move(file)), begin_(begin), bytes_(bytes), name_(std::move(name)) {}

std::string StoredFile::text() const {
  std::string text(static_cast<std::size_t>(bytes_), '\0');
  read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

std::unique_ptr<const CheckpointFiles> files_of_directory(const std::filesystem::path& directory) {
  return std::make_unique<FilesOfDirectory>(directory);
}

}  // namespace phalanx
