#include "phalanx/checkpoint/background_verifier.h"

#include <fmt/core.h>

#include <csignal>
#include <exception>
#include <system_error>
#include <utility>

#include "phalanx/base/threads.h"
#include "phalanx/checkpoint/checkpoint_directory.h"
#include "phalanx/checkpoint/read_back.h"

namespace phalanx {
namespace {

// Training fills all cores of many hosts: what waited for an idle one would never be read.
constexpr int kNice = 10;

// Signals are left to other threads, except those of its own faults.
void leave_signals_to_others() {
  sigset_t others;
  ::sigfillset(&others);
  for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) ::sigdelset(&others, own);
  ::pthread_sigmask(SIG_BLOCK, &others, nullptr);
}

}  // namespace

BackgroundVerifier::BackgroundVerifier(std::filesystem::path save, DirectoryHolder holder)
    : save_(std::move(save)),
      holder_(std::move(holder)),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

BackgroundVerifier::~BackgroundVerifier() = default;

void BackgroundVerifier::look() {
  const std::lock_guard lock(mutex_);
  is_behind_ = !is_idle_ || is_due_;
  is_due_ = true;
  changed_.notify_all();
}

void BackgroundVerifier::finish(std::chrono::milliseconds longest) {
  std::unique_lock lock(mutex_);
  hurries_ = true;
  changed_.notify_all();
  changed_.wait_for(lock, longest, [this] { return is_idle_ && !is_due_; });
  hurries_ = false;
}

std::vector<std::string> BackgroundVerifier::take_faults() {
  const std::lock_guard lock(mutex_);
  return std::exchange(faults_, {});
}

void BackgroundVerifier::run(const std::stop_token& stop) {
  leave_signals_to_others();
  give_way(kNice);
  std::unique_lock lock(mutex_);
  while (true) {
    is_idle_ = true;
    is_behind_ = false;
    changed_.notify_all();
    if (!changed_.wait(lock, stop, [this] { return is_due_; })) return;
    is_due_ = false;
    is_idle_ = false;
    lock.unlock();
    std::string fault;
    try {
      verify_newest(stop);
    } catch (const std::exception& error) {
      fault =
          fmt::format("checkpoints in {} cannot be read back: {}", save_.string(), error.what());
    }
    lock.lock();
    if (!fault.empty()) faults_.push_back(std::move(fault));
  }
}

void BackgroundVerifier::verify_newest(const std::stop_token& stop) {
  if (!holder_.holds_directory()) return;
  VerifiedMarks marks(save_);
  const std::vector<SavedCheckpoint> saved = saved_checkpoints(save_);
  for (auto next = saved.rbegin(); next != saved.rend(); ++next) {
    const SavedCheckpoint& checkpoint = *next;
    if (!holder_.owns(checkpoint.run_id)) continue;
    if (marks.has(checkpoint.directory)) return;
    FileStamps stamps = stamps_of(checkpoint.directory);
    const auto known = damaged_.find(checkpoint.directory);
    if (known != damaged_.end() && known->second == stamps) continue;
    std::string fault;
    const ReadBackOutcome result = read_back(
        checkpoint.directory,
        [&](std::chrono::nanoseconds took) { return wait_after_block(took, stop); }, fault);
    if (result == ReadBackOutcome::kGivenUp) return;
    std::error_code error;
    if (!holder_.holds_directory()) return;
    // Another one has its name now, or it is gone: that is no fault of the disk.
    if (!std::filesystem::exists(checkpoint.directory, error)) return;
    if (stamps_of(checkpoint.directory) != stamps) return look();
    if (result == ReadBackOutcome::kWhole)
      return marks.add(checkpoint.directory, std::move(stamps));
    damaged_[checkpoint.directory] = std::move(stamps);
    const std::lock_guard lock(mutex_);
    faults_.push_back(fmt::format(
        "the checkpoint {} was saved and cannot be read back: {}; the last one that can stays",
        checkpoint.directory.string(), fault));
  }
}

bool BackgroundVerifier::wait_after_block(std::chrono::nanoseconds took,
                                          const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, stop, took, [this] { return hurries_ || is_behind_; });
  return !stop.stop_requested();
}

}  // namespace phalanx
