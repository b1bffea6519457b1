#include "phalanx/saving/save_thread.h"

#include <system_error>
#include <utility>

#include "phalanx/base/threads.h"

namespace phalanx {
namespace {

constexpr std::chrono::seconds kPatience{3};
constexpr int kNice = 5;

}  // namespace

SaveThread::SaveThread(std::function<void(const std::stop_token& stop)> body) {
  try {
    thread_ = start_thread([body = std::move(body), end = end_, stop = stop_.get_token()] {
      give_way(kNice);
      body(stop);
      const std::lock_guard lock(end->mutex);
      end->is_there = true;
      end->changed.notify_all();
    });
  } catch (const std::system_error& error) {
    throw_threads_refused(0, 1, error);
  }
}

SaveThread::~SaveThread() {
  stop_.request_stop();
  std::unique_lock lock(end_->mutex);
  const auto patience = is_left_behind_ ? std::chrono::seconds(0) : kPatience;
  const bool ends = end_->changed.wait_for(lock, patience, [this] { return end_->is_there; });
  lock.unlock();
  if (!ends) thread_.detach();
}

}  // namespace phalanx
