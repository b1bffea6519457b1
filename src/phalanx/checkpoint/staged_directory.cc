#include "phalanx/checkpoint/staged_directory.h"

#include <system_error>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/file.h"
#include "phalanx/base/working_directory.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;

// The path without a slash at its end.
fs::path plain(const fs::path& path) {
  const fs::path normal = absolute_path(path).lexically_normal();
  return normal.has_filename() ? normal : normal.parent_path();
}

bool is_free(const fs::path& path) {
  std::error_code error;
  const auto status = fs::symlink_status(path, error);
  if (!fs::exists(status)) return true;
  return fs::is_directory(status) && fs::is_empty(path, error) && !error;
}

}  // namespace

StagedDirectory::StagedDirectory(const fs::path& directory, std::string_view flag)
    : directory_(plain(directory)), staging_(directory_.string() + ".partial"), flag_(flag) {
  if (!is_free(directory_)) {
    throw OutputError("{} {}: is there and not an empty directory: name another", flag,
                      directory_.string());
  }
  std::error_code error;
  if (!is_free(staging_) && !fs::exists(staging_ / kLockName, error)) {
    throw OutputError("{} {}: {} is in the way: move it, or name another directory", flag,
                      directory_.string(), staging_.string());
  }
  lock_.emplace(staging_, flag);
  for (fs::directory_iterator entry(staging_, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().filename() == kLockName) continue;
    std::error_code fault;
    fs::remove_all(entry->path(), fault);
    if (fault) throw OutputError("{}: cannot remove: {}", entry->path().string(), fault.message());
  }
  if (error) throw OutputError("{}: cannot be listed: {}", staging_.string(), error.message());
}

StagedDirectory::~StagedDirectory() {
  std::error_code ignored;
  if (!committed_) fs::remove_all(staging_, ignored);
}

void StagedDirectory::commit() {
  sync_directory(staging_);
  std::error_code error;
  fs::rename(staging_, directory_, error);
  if (error) {
    throw OutputError("{} {}: cannot rename {} into place: {}", flag_, directory_.string(),
                      staging_.string(), error.message());
  }
  committed_ = true;
  // Last: until now another process finds the lock, from now on the directory.
  fs::remove(directory_ / kLockName, error);
  sync_directory(directory_);
  sync_directory(directory_.parent_path());
}

}  // namespace phalanx
