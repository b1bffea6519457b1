#include "phalanx/metrics/appended_file.h"

#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "phalanx/base/log.h"
#include "phalanx/base/progress.h"

namespace phalanx {
namespace {

std::string records(std::size_t count) {
  return fmt::format("{} record{}", count, count == 1 ? " is" : "s are");
}

}  // namespace

AppendedFile::AppendedFile(std::filesystem::path path, FileDescriptor descriptor)
    : path_(std::move(path)), descriptor_(std::move(descriptor)) {}

AppendedFile::~AppendedFile() {
  if (!is_behind_) return;
  if (const int error = write_waiting(); error != 0) {
    log_warning("{}: {} missing: {}", path_.string(), records(lost_ + waiting_.size()),
                std::strerror(error));
  } else {
    tell_end();
  }
}

void AppendedFile::write(std::string record) {
  waiting_bytes_ += record.size();
  waiting_.push_back(std::move(record));
  const int error = write_waiting();
  if (error != 0 && !std::exchange(is_behind_, true)) {
    log_warning(
        "{}: cannot write: {}; what is to be written there waits in memory and is tried again",
        path_.string(), std::strerror(error));
  } else if (error == 0 && is_behind_) {
    tell_end();
  }
  while (waiting_bytes_ > kMostWaiting) {
    waiting_bytes_ -= waiting_.front().size();
    waiting_.pop_front();
    ++lost_;
  }
}

void AppendedFile::tell_end() {
  if (lost_ == 0) {
    log_info("{}: is written again, nothing is missing", path_.string());
  } else {
    log_warning("{}: is written again, {} missing: more had to wait than memory is kept for",
                path_.string(), records(lost_));
  }
  is_behind_ = false;
  lost_ = 0;
}

int AppendedFile::write_waiting() {
  const FileAccess access("writing", path_);
  while (!waiting_.empty()) {
    std::string& record = waiting_.front();
    const std::size_t before = record.size();
    const int error = append(record);
    waiting_bytes_ -= before - record.size();
    if (error != 0) return error;
    waiting_.pop_front();
  }
  return 0;
}

// Leaves of the record what is still to be written: all of it, or, where the file cannot be cut,
// its rest, which then continues the part that stands there.
int AppendedFile::append(std::string& record) {
  struct stat status {};
  const bool has_size = ::fstat(descriptor_.get(), &status) == 0;
  std::string_view rest = record;
  int error = 0;
  while (!rest.empty()) {
    const auto put = ::write(descriptor_.get(), rest.data(), rest.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) {
      error = errno;
      break;
    }
    rest.remove_prefix(static_cast<std::size_t>(put));
  }
  const bool is_torn = error != 0 && rest.size() < record.size();
  if (is_torn && has_size && ::ftruncate(descriptor_.get(), status.st_size) == 0) return error;
  record.erase(0, record.size() - rest.size());
  return error;
}

}  // namespace phalanx
