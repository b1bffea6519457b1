#include "phalanx/launch/left_memory.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>

namespace phalanx::launch {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kNameBegin = "ucx_shm_posix_";

struct LeftFile {
  fs::path path;
  struct stat identity {};
};

std::vector<LeftFile> candidates(const fs::path& folder, fs::file_time_type since) {
  std::vector<LeftFile> files;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    LeftFile file{.path = at->path()};
    if (!file.path.filename().string().starts_with(kNameBegin)) continue;
    if (::lstat(file.path.c_str(), &file.identity) != 0) continue;
    if (!S_ISREG(file.identity.st_mode) || file.identity.st_uid != ::geteuid()) continue;
    std::error_code is_gone;
    if (fs::last_write_time(file.path, is_gone) < since || is_gone) continue;
    files.push_back(std::move(file));
  }
  return files;
}

bool is_process(const fs::path& name) {
  return std::ranges::all_of(name.string(), [](char c) { return c >= '0' && c <= '9'; });
}

bool has_open(const fs::path& descriptor, const LeftFile& file) {
  struct stat open {};
  return ::stat(descriptor.c_str(), &open) == 0 && open.st_dev == file.identity.st_dev &&
         open.st_ino == file.identity.st_ino;
}

// Whether a process that shows no files may have some: it runs, and it is this user's.
bool may_have_files(const fs::path& process) {
  std::ifstream status(process / "status");
  bool runs = false;
  bool is_own = false;
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("State:")) runs = line.find("Z (") == std::string::npos;
    if (line.starts_with("Uid:"))
      is_own = std::atoi(line.c_str() + 5) == static_cast<int>(::geteuid());
  }
  return runs && is_own;
}

// False if the process may have files and does not show them.
bool forget_files_of(const fs::path& process, std::vector<LeftFile>& files) {
  std::error_code error;
  fs::directory_iterator at(process / "fd", error);
  if (error) return !may_have_files(process);
  for (const fs::directory_iterator end; !error && at != end; at.increment(error)) {
    std::erase_if(files, [&](const LeftFile& file) { return has_open(at->path(), file); });
  }
  std::ifstream mappings(process / "maps");
  for (std::string line; std::getline(mappings, line);) {
    std::erase_if(files, [&](const LeftFile& file) { return line.ends_with(file.path.string()); });
  }
  return true;
}

}  // namespace

std::vector<fs::path> remove_left_memory(const fs::path& folder, fs::file_time_type since) {
  std::vector<LeftFile> files = candidates(folder, since);
  if (files.empty()) return {};
  std::error_code error;
  for (fs::directory_iterator at("/proc", error), end; !error && at != end; at.increment(error)) {
    if (is_process(at->path().filename()) && !forget_files_of(at->path(), files)) return {};
  }
  if (error) return {};
  std::vector<fs::path> removed;
  for (const LeftFile& file : files) {
    if (fs::remove(file.path, error)) removed.push_back(file.path);
  }
  return removed;
}

}  // namespace phalanx::launch
