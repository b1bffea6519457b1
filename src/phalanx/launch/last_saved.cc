#include "phalanx/launch/last_saved.h"

#include <fmt/core.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <system_error>
#include <tuple>
#include <vector>

#include "phalanx/base/error.h"

namespace phalanx::launch {
namespace {

namespace fs = std::filesystem;

// A page: a kill does not cut the write of one.
constexpr std::size_t kFileBytes = 4096;

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(fs::symlink_status(path, error));
}

bool was_moved_aside(const fs::path& checkpoint) {
  std::error_code error;
  for (fs::directory_iterator entry(checkpoint.parent_path(), error), end; !error && entry != end;
       entry.increment(error)) {
    if (is_abandoned_name(entry->path().filename().string()) &&
        is_there(entry->path() / checkpoint.filename())) {
      return true;
    }
  }
  return false;
}

// Those of the run, the newest last; none where the directory cannot be listed.
std::vector<SavedCheckpoint> of_run(const fs::path& save, const std::string& run_id) {
  std::vector<SavedCheckpoint> saved;
  try {
    saved = saved_checkpoints(save);
  } catch (const Error&) {
    return {};
  }
  std::erase_if(saved, [&](const SavedCheckpoint& one) { return one.run_id != run_id; });
  return saved;
}

}  // namespace

LastSavedFile LastSavedFile::make() {
  LastSavedFile made;
  made.file_ = FileDescriptor(::memfd_create("phalanx-last-saved", MFD_CLOEXEC));
  return made;
}

std::optional<SavedCheckpoint> LastSavedFile::read() const {
  if (!file_.is_open()) return std::nullopt;
  std::array<char, kFileBytes + 1> bytes{};
  if (::pread(file_.get(), bytes.data(), kFileBytes, 0) <= 0) return std::nullopt;
  std::istringstream text(bytes.data());
  SavedCheckpoint saved;
  std::string directory;
  if (!(text >> saved.start >> saved.iteration) || text.get() != '\n' ||
      !std::getline(text, saved.run_id) || !std::getline(text, directory, '\0')) {
    return std::nullopt;
  }
  saved.directory = directory;
  return saved;
}

void write_last_saved(int descriptor, const SavedCheckpoint& saved) {
  // The path last: it may have any bytes.
  std::string text = fmt::format("{} {}\n{}\n{}", saved.start, saved.iteration, saved.run_id,
                                 saved.directory.string());
  if (text.size() >= kFileBytes) throw IoError("a path of {} bytes", text.size());
  text.resize(kFileBytes);  // with zero bytes over a longer text
  if (::pwrite(descriptor, text.data(), text.size(), 0) != std::ssize(text)) {
    throw IoError("the launcher's memory file cannot be written: {}", std::strerror(errno));
  }
}

std::string loss_of(const SavedCheckpoint& last) {
  const fs::path save = last.directory.parent_path();
  if (is_there(last.directory)) return "";
  if (last.iteration == kNothingSaved) {
    return fmt::format("what this job has begun in {} is gone: {} is not there", save.string(),
                       last.directory.filename().string());
  }
  const std::vector<SavedCheckpoint> found = of_run(save, last.run_id);
  const auto key = [](const SavedCheckpoint& one) { return std::tuple(one.start, one.iteration); };
  if (!found.empty() && key(found.back()) >= key(last)) return "";
  if (was_moved_aside(last.directory)) return "";
  const std::string instead =
      !found.empty()
          ? fmt::format("the newest of this run there is of iteration {}", found.back().iteration)
      : is_there(save) ? "there is none of this run"
                       : "the directory is not there";
  return fmt::format("the last checkpoint that this job saved, {}, of iteration {}, is gone: {}",
                     last.directory.string(), last.iteration, instead);
}

}  // namespace phalanx::launch
