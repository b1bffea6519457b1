#include "recorder.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <liburing.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>

namespace phalanx::power_cuts {
namespace {

using Kind = Event::Kind;

// The tree as the program sees it, and the record.
class Recorder {
 public:
  Recorder(std::string root, DiskRecord before)
      : root_(std::move(root)), directories_(entries_after(before)), record_(std::move(before)) {}

  struct Place {
    int directory = -1;
    std::string name;
    int node = -1;  // -1: nothing of that name
  };

  // Nothing, where the path is not below the root.
  std::optional<Place> place(int at, const char* path) const {
    int directory = kRoot;
    std::string_view rest = path;
    if (rest.starts_with('/')) {
      if (!rest.starts_with(root_)) return std::nullopt;
      rest.remove_prefix(root_.size());
      if (!rest.empty() && rest.front() != '/') return std::nullopt;
    } else {
      const int found = node_of(at);
      if (found < 0) return std::nullopt;
      directory = found;
    }
    Place place{.directory = -1, .name = {}, .node = directory};
    while (!rest.empty()) {
      const std::size_t end = std::min(rest.find('/'), rest.size());
      const std::string name(rest.substr(0, end));
      rest.remove_prefix(std::min(end + 1, rest.size()));
      if (name.empty() || name == ".") continue;
      if (place.node < 0) return std::nullopt;
      const auto directory_of = directories_.find(place.node);
      int node = -1;
      if (directory_of != directories_.end()) {
        const auto found = directory_of->second.find(name);
        if (found != directory_of->second.end()) node = found->second;
      }
      place = {place.node, name, node};
    }
    return place;
  }

  void make(Place& place, bool is_directory) {
    place.node = static_cast<int>(record_.is_directory.size());
    record_.is_directory.push_back(is_directory);
    add({.kind = Kind::kMake,
         .node = place.node,
         .directory = place.directory,
         .name = place.name});
  }
  void unlink(const Place& place) {
    add({.kind = Kind::kUnlink, .directory = place.directory, .name = place.name});
  }
  void rename(const Place& from, const Place& to, bool exchanges) {
    add({.kind = exchanges ? Kind::kExchange : Kind::kRename,
         .node = from.node,
         .directory = from.directory,
         .name = from.name,
         .to_directory = to.directory,
         .to_name = to.name,
         .to_node = to.node});
  }
  void write(int node, std::int64_t offset, const void* bytes, std::int64_t count) {
    add({.kind = Kind::kWrite,
         .node = node,
         .offset = offset,
         .bytes = std::string(static_cast<const char*>(bytes), static_cast<std::size_t>(count))});
  }
  void resize(int node, std::int64_t size) {
    add({.kind = Kind::kResize, .node = node, .size = size});
  }
  void sync(int node) { add({.kind = Kind::kSync, .node = node}); }
  void mark(std::int64_t number) { add({.kind = Kind::kMark, .offset = number}); }

  void opened(int descriptor, int node) {
    struct stat status {};
    if (::fstat(descriptor, &status) != 0) return;
    open_[descriptor] = {node, status.st_dev, status.st_ino};
  }
  // Some calls close files unseen, and their numbers are given again.
  int node_of(int descriptor) const {
    const auto found = open_.find(descriptor);
    struct stat status {};
    if (found == open_.end() || ::fstat(descriptor, &status) != 0 ||
        status.st_dev != found->second.device || status.st_ino != found->second.inode) {
      return -1;
    }
    return found->second.node;
  }
  std::size_t events() const { return record_.events.size(); }
  DiskRecord take() { return std::move(record_); }

 private:
  struct Open {
    int node;
    dev_t device;
    ino_t inode;
  };

  void add(Event event) {
    apply_names(event, directories_);
    record_.events.push_back(std::move(event));
  }

  std::string root_;
  Directories directories_;
  std::map<int, Open> open_;
  DiskRecord record_;
};

std::mutex mutex;
std::optional<Recorder> recorder;    // under the mutex
std::atomic<bool> recording{false};  // without it calls pass straight through

template <typename Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

// Makes the call and notes it as one step, so that the record has the order of the disk. `note`
// gets the recorder and the call's result where it succeeded.
template <typename Call, typename Note>
auto recorded(Call call, Note note) {
  if (!recording) return call();
  const std::lock_guard lock(mutex);
  if (!recorder) return call();
  return note(*recorder, call);
}

bool has_mode(int flags) { return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE; }

int open_recorded(int at, const char* path, int flags, mode_t mode) {
  static auto* const real = next<int(int, const char*, int, ...)>("openat");
  const auto call = [&] { return real(at, path, flags, mode); };
  return recorded(call, [&](Recorder& to, const auto& really) {
    auto place = to.place(at, path);
    const int descriptor = really();
    if (descriptor < 0 || !place) return descriptor;
    const int error = errno;
    if (place->node < 0 && (flags & O_CREAT) != 0) {
      to.make(*place, false);
    } else if (place->node >= 0 && (flags & O_TRUNC) != 0) {
      to.resize(place->node, 0);
    }
    if (place->node >= 0) to.opened(descriptor, place->node);
    errno = error;
    return descriptor;
  });
}

int unlink_recorded(int at, const char* path, int flags) {
  static auto* const real = next<int(int, const char*, int)>("unlinkat");
  const auto call = [&] { return real(at, path, flags); };
  return recorded(call, [&](Recorder& to, const auto& really) {
    const auto place = to.place(at, path);
    const int result = really();
    if (result == 0 && place && place->node >= 0) to.unlink(*place);
    return result;
  });
}

int rename_recorded(int from_at, const char* from, int to_at, const char* to_path, unsigned flags) {
  static auto* const real = next<int(int, const char*, int, const char*, unsigned)>("renameat2");
  const auto call = [&] { return real(from_at, from, to_at, to_path, flags); };
  return recorded(call, [&](Recorder& to, const auto& really) {
    const auto source = to.place(from_at, from);
    const auto target = to.place(to_at, to_path);
    const int result = really();
    if (result == 0 && source && target && source->node >= 0) {
      to.rename(*source, *target, (flags & RENAME_EXCHANGE) != 0);
    }
    return result;
  });
}

int mkdir_recorded(int at, const char* path, mode_t mode) {
  static auto* const real = next<int(int, const char*, mode_t)>("mkdirat");
  const auto call = [&] { return real(at, path, mode); };
  return recorded(call, [&](Recorder& to, const auto& really) {
    auto place = to.place(at, path);
    const int result = really();
    if (result == 0 && place) to.make(*place, true);
    return result;
  });
}

ssize_t write_recorded(int descriptor, const void* bytes, size_t count, std::optional<off_t> at) {
  static auto* const real_write = next<ssize_t(int, const void*, size_t)>("write");
  static auto* const real_pwrite = next<ssize_t(int, const void*, size_t, off_t)>("pwrite64");
  const auto call = [&] {
    return at ? real_pwrite(descriptor, bytes, count, *at) : real_write(descriptor, bytes, count);
  };
  return recorded(call, [&](Recorder& to, const auto& really) {
    const int node = to.node_of(descriptor);
    const ssize_t result = really();
    if (node < 0 || result <= 0) return result;
    // Also of a file that is appended to: its position is behind what was written.
    const off_t begin = at ? *at : ::lseek(descriptor, 0, SEEK_CUR) - result;
    to.write(node, begin, bytes, result);
    return result;
  });
}

template <typename Call>
int resize_recorded(int descriptor, Call call) {
  return recorded(call, [&](Recorder& to, const auto& really) {
    const int node = to.node_of(descriptor);
    const int result = really();
    struct stat status {};
    if (node >= 0 && result == 0 && ::fstat(descriptor, &status) == 0) {
      to.resize(node, status.st_size);
    }
    return result;
  });
}

int sync_recorded(int descriptor) {
  return recorded([] { return 0; },
                  [&](Recorder& to, const auto& /*really*/) {
                    const int node = to.node_of(descriptor);
                    if (node >= 0) to.sync(node);
                    return 0;
                  });
}

}  // namespace

void start_recording(const std::filesystem::path& root, DiskRecord before) {
  const std::lock_guard lock(mutex);
  recorder.emplace(root.string(), std::move(before));
  recording = true;
}

void mark(std::int64_t number) {
  const std::lock_guard lock(mutex);
  recorder->mark(number);
}

bool is_recording() { return recording; }

std::size_t recorded_events() {
  const std::lock_guard lock(mutex);
  return recorder->events();
}

DiskRecord stop_recording() {
  const std::lock_guard lock(mutex);
  recording = false;
  DiskRecord record = recorder->take();
  recorder.reset();
  return record;
}

}  // namespace phalanx::power_cuts

// The functions of a program win over those of the C library, also in calls of other libraries.
// NOLINTBEGIN(readability-identifier-naming,readability-inconsistent-declaration-parameter-name)
namespace pc = phalanx::power_cuts;

extern "C" {

int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = pc::has_mode(flags) ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return pc::open_recorded(AT_FDCWD, path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = pc::has_mode(flags) ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return pc::open_recorded(AT_FDCWD, path, flags, mode);
}
int openat(int at, const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = pc::has_mode(flags) ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return pc::open_recorded(at, path, flags, mode);
}
// Of code that glibc checks: without a mode.
int __open_2(const char* path, int flags) { return pc::open_recorded(AT_FDCWD, path, flags, 0); }
int __openat_2(int at, const char* path, int flags) {
  return pc::open_recorded(at, path, flags, 0);
}

ssize_t write(int descriptor, const void* bytes, size_t count) {
  return pc::write_recorded(descriptor, bytes, count, std::nullopt);
}
ssize_t pwrite(int descriptor, const void* bytes, size_t count, off_t at) {
  return pc::write_recorded(descriptor, bytes, count, at);
}
ssize_t pwrite64(int descriptor, const void* bytes, size_t count, off64_t at) {
  return pc::write_recorded(descriptor, bytes, count, at);
}
int ftruncate(int descriptor, off_t size) noexcept {
  static auto* const real = pc::next<int(int, off_t)>("ftruncate64");
  return pc::resize_recorded(descriptor, [&] { return real(descriptor, size); });
}
int fallocate(int descriptor, int mode, off_t offset, off_t count) {
  static auto* const real = pc::next<int(int, int, off_t, off_t)>("fallocate64");
  return pc::resize_recorded(descriptor, [&] { return real(descriptor, mode, offset, count); });
}
// The record is the disk here: nothing needs to wait for the real one.
int fsync(int descriptor) { return pc::sync_recorded(descriptor); }
int fdatasync(int descriptor) { return pc::sync_recorded(descriptor); }

int rename(const char* from, const char* to) noexcept {
  return pc::rename_recorded(AT_FDCWD, from, AT_FDCWD, to, 0);
}
int renameat(int from_at, const char* from, int to_at, const char* to) noexcept {
  return pc::rename_recorded(from_at, from, to_at, to, 0);
}
int renameat2(int from_at, const char* from, int to_at, const char* to, unsigned flags) noexcept {
  return pc::rename_recorded(from_at, from, to_at, to, flags);
}
int unlink(const char* path) noexcept { return pc::unlink_recorded(AT_FDCWD, path, 0); }
int unlinkat(int at, const char* path, int flags) noexcept {
  return pc::unlink_recorded(at, path, flags);
}
int rmdir(const char* path) noexcept { return pc::unlink_recorded(AT_FDCWD, path, AT_REMOVEDIR); }
int remove(const char* path) noexcept {
  if (pc::unlink_recorded(AT_FDCWD, path, 0) == 0) return 0;
  return errno == EISDIR ? pc::unlink_recorded(AT_FDCWD, path, AT_REMOVEDIR) : -1;
}
int mkdir(const char* path, mode_t mode) noexcept {
  return pc::mkdir_recorded(AT_FDCWD, path, mode);
}
int mkdirat(int at, const char* path, mode_t mode) noexcept {
  return pc::mkdir_recorded(at, path, mode);
}

int io_uring_queue_init(unsigned /*entries*/, io_uring* /*ring*/, unsigned /*flags*/) {
  return -ENOSYS;
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming,readability-inconsistent-declaration-parameter-name)
