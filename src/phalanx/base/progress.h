#pragma once
// What moves in a rank's own work: counted by the code that moves it, read by whoever watches over
// the rank and would otherwise take it for one that hangs. Code that may take long - a kernel, a
// block of a file, a pass over an array - says so with note_progress() or a FileAccess; where the
// calling thread has no Progress both do nothing.

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <string>
#include <string_view>

namespace phalanx {

// Each call from any thread.
class Progress {
 public:
  struct Files {
    std::string access;      // under way now: "writing /runs/a/model.safetensors"; empty: none
    std::int64_t bytes = 0;  // that were read and written so far
    std::int64_t files = 0;  // that were written to their end so far
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
  // The one before.
  std::string exchange_access(std::string access);

  std::atomic<std::uint64_t> ticks_{0};
  std::atomic<std::int64_t> bytes_{0};
  std::atomic<std::int64_t> files_{0};
  mutable std::mutex mutex_{};
  std::string access_{};
};

// Of the calling thread; null: nobody watches over what it does.
Progress* thread_progress() noexcept;

// The calling thread's from here to the end of the scope. The Progress outlives it.
class ProgressScope {
 public:
  explicit ProgressScope(Progress* progress) noexcept;
  ProgressScope(const ProgressScope&) = delete;
  ProgressScope& operator=(const ProgressScope&) = delete;
  ~ProgressScope();

 private:
  Progress* before_;
};

// Something moved in what the calling thread does.
void note_progress() noexcept;

// The calling thread is in a call of the file system, which may not come back.
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
