#pragma once
// The progress of a rank's own work. Code that may take long (a kernel, a part of a file, a pass
// over an array) counts it with note_progress() or a FileAccess. The hang detector reads the
// counts, so a busy rank does not look like a hanging one. Without a Progress on the thread both do
// nothing.

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <string>
#include <string_view>

namespace phalanx {

// Thread-safe.
class Progress {
 public:
  struct Files {
    std::string access;      // the present one: "writing /runs/a/model.safetensors"; or empty
    std::int64_t bytes = 0;  // read and written so far
    std::int64_t files = 0;  // completely written so far
  };

  void tick() noexcept { ticks_.fetch_add(1, std::memory_order_relaxed); }
  std::uint64_t ticks() const noexcept { return ticks_.load(std::memory_order_relaxed); }
  Files files() const;

  void add_bytes(std::int64_t bytes) noexcept {
    bytes_.fetch_add(bytes, std::memory_order_relaxed);
    tick();
  }
  void add_file() noexcept {
    files_.fetch_add(1, std::memory_order_relaxed);
    tick();
  }

 private:
  friend class FileAccess;
  // Returns the previous access.
  std::string exchange_access(std::string access);

  std::atomic<std::uint64_t> ticks_{0};
  std::atomic<std::int64_t> bytes_{0};
  std::atomic<std::int64_t> files_{0};
  mutable std::mutex mutex_{};
  std::string access_{};
};

// The Progress of the calling thread; null: nothing is counted.
Progress* thread_progress() noexcept;

// Sets the calling thread's progress for a scope. `progress` must outlive the scope.
class ProgressScope {
 public:
  explicit ProgressScope(Progress* progress) noexcept;
  ProgressScope(const ProgressScope&) = delete;
  ProgressScope& operator=(const ProgressScope&) = delete;
  ~ProgressScope();

 private:
  Progress* before_;
};

// Counts one step of the calling thread's work.
void note_progress() noexcept;

// Marks a file system call of the calling thread, which may hang, while this object lives.
class FileAccess {
 public:
  // For example "writing" and the file's path.
  FileAccess(std::string_view verb, const std::filesystem::path& path);
  FileAccess(const FileAccess&) = delete;
  FileAccess& operator=(const FileAccess&) = delete;
  ~FileAccess();

  void moved(std::int64_t bytes) noexcept {
    if (progress_ != nullptr) progress_->add_bytes(bytes);
  }

 private:
  Progress* progress_;
  std::string before_{};
};

}  // namespace phalanx
