#pragma once
// A thread that works for a save beside the training: of low priority, and left behind where the
// system does not let it end.

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <thread>

namespace phalanx {

class SaveThread {
 public:
  // `body` must hold all that it touches after `stop` was requested. SystemError if the system
  // refuses the thread.
  explicit SaveThread(std::function<void(const std::stop_token& stop)> body);
  SaveThread(const SaveThread&) = delete;
  SaveThread& operator=(const SaveThread&) = delete;
  // Asks it to stop, and waits for its end; not longer than some seconds, because a file system may
  // hang for ever.
  ~SaveThread();

  void request_stop() { stop_.request_stop(); }
  // It is known to hang: the destructor does not wait for it.
  void leave_behind() { is_left_behind_ = true; }

 private:
  struct End {
    std::mutex mutex{};
    std::condition_variable changed{};
    bool is_there = false;
  };

  std::shared_ptr<End> end_ = std::make_shared<End>();
  std::stop_source stop_;
  bool is_left_behind_ = false;
  std::jthread thread_;
};

}  // namespace phalanx
