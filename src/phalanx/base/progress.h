#pragma once
// The progress of a rank's own work. Code that may take long - a kernel, a block of a file, a pass
// over an array - counts it with note_progress() or a FileAccess; what watches over the rank reads
// the counts, and so does not take a busy rank for one that hangs. On a thread without a Progress
// both do nothing.

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <string>
#include <string_view>

namespace phalanx {

// All calls may come from any thread.
class Progress {
 public:
  struct Files {
    std::string access;      // under way now: "writing /runs/a/model.safetensors"; empty: none
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
  // Returns the access before.
  std::string exchange_access(std::string access);

  std::atomic<std::uint64_t> ticks_{0};
  std::atomic<std::int64_t> bytes_{0};
  std::atomic<std::int64_t> files_{0};
  mutable std::mutex mutex_{};
  std::string access_{};
};

// The calling thread's; null: its progress is not counted.
Progress* thread_progress() noexcept;

// Makes `progress`, which must live longer, the calling thread's until the end of the scope.
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

// While it lives, the calling thread is in a call of the file system, which may hang.
class FileAccess {
 public:
  // "writing", the file's path.
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
