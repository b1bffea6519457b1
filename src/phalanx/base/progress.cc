#include "phalanx/base/progress.h"

#include <utility>

namespace phalanx {
namespace {

Progress*& of_thread() noexcept {
  thread_local Progress* progress = nullptr;
  return progress;
}

}  // namespace

Progress::Files Progress::files() const {
  Files files{.access = {},
              .bytes = bytes_.load(std::memory_order_relaxed),
              .files = files_.load(std::memory_order_relaxed)};
  const std::lock_guard lock(mutex_);
  files.access = access_;
  return files;
}

std::string Progress::exchange_access(std::string access) {
  const std::lock_guard lock(mutex_);
  return std::exchange(access_, std::move(access));
}

Progress* thread_progress() noexcept { return of_thread(); }

ProgressScope::ProgressScope(Progress* progress) noexcept
    : before_(std::exchange(of_thread(), progress)) {}

ProgressScope::~ProgressScope() { of_thread() = before_; }

void note_progress() noexcept {
  if (Progress* const progress = of_thread()) progress->tick();
}

FileAccess::FileAccess(std::string_view verb, const std::filesystem::path& path)
    : progress_(of_thread()) {
  if (progress_ == nullptr) return;
  before_ = progress_->exchange_access(std::string(verb).append(" ").append(path.string()));
  progress_->tick();
}

FileAccess::~FileAccess() {
  if (progress_ == nullptr) return;
  progress_->exchange_access(std::move(before_));
  progress_->tick();
}

}  // namespace phalanx
