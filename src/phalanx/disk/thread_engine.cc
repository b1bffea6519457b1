// Threads that call pread and pwrite, for systems without io_uring.

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "phalanx/base/threads.h"
#include "phalanx/disk/block_engine.h"

namespace phalanx {
namespace {

class ThreadEngine final : public BlockEngine {
 public:
  ThreadEngine(int threads, const std::string& reason)
      : description_(fmt::format("{} threads that call pread and pwrite", threads)) {
    if (!reason.empty()) description_ += fmt::format(" ({})", reason);
    try {
      for (int i = 0; i < threads; ++i) threads_.push_back(start_thread([this] { work(); }));
    } catch (const std::system_error& error) {
      stop();
      throw_threads_refused(static_cast<int>(threads_.size()), threads, error);
    }
  }
  ~ThreadEngine() override { stop(); }

  std::string description() const override { return description_; }
  void add_file(int /*descriptor*/) override {}
  void remove_file(int /*descriptor*/) noexcept override {}

  void submit(const BlockRequest& request) override {
    {
      const std::lock_guard lock(mutex_);
      requests_.push_back(request);
    }
    has_requests_.notify_one();
  }

  void wait(std::vector<BlockCompletion>& completions) override {
    std::unique_lock lock(mutex_);
    has_completions_.wait(lock, [this] { return woken_ || !completions_.empty(); });
    woken_ = false;
    completions.insert(completions.end(), completions_.begin(), completions_.end());
    completions_.clear();
  }

  void wake() noexcept override {
    {
      const std::lock_guard lock(mutex_);
      woken_ = true;
    }
    has_completions_.notify_one();
  }

 private:
  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stops_ = true;
    }
    has_requests_.notify_all();
    for (std::jthread& thread : threads_) thread.join();
  }

  // The next request; nothing when the engine stops and all are done.
  std::optional<BlockRequest> next_request() {
    std::unique_lock lock(mutex_);
    has_requests_.wait(lock, [this] { return stops_ || !requests_.empty(); });
    if (requests_.empty()) return std::nullopt;
    const BlockRequest request = requests_.front();
    requests_.pop_front();
    return request;
  }

  void work() {
    while (const auto request = next_request()) {
      const auto size = static_cast<std::size_t>(request->bytes);
      const auto moved = request->is_write
                             ? ::pwrite(request->descriptor, request->memory, size, request->offset)
                             : ::pread(request->descriptor, request->memory, size, request->offset);
      const std::int64_t result = moved < 0 ? -errno : moved;
      {
        const std::lock_guard lock(mutex_);
        completions_.push_back({request->slot, result});
      }
      has_completions_.notify_one();
    }
  }

  std::string description_;
  std::mutex mutex_;
  std::condition_variable has_requests_, has_completions_;
  std::deque<BlockRequest> requests_;
  std::vector<BlockCompletion> completions_;
  bool woken_ = false;
  bool stops_ = false;
  std::vector<std::jthread> threads_;
};

}  // namespace

std::unique_ptr<BlockEngine> make_thread_engine(const StorageOptions& options,
                                                const std::string& reason) {
  return std::make_unique<ThreadEngine>(std::clamp(options.threads, 1, options.queue_depth),
                                        reason);
}

}  // namespace phalanx
