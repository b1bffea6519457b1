#include "phalanx/launch/console.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstddef>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace phalanx::launch {
namespace {

constexpr std::size_t kFull = std::size_t{1} << 20;
// A pipe that is ready for writing takes as much without waiting (PIPE_BUF).
constexpr std::size_t kPiece = 4096;
constexpr auto kLastWait = std::chrono::seconds(2);
constexpr int kPollMilliseconds = 100;

}  // namespace

class Console::Writer {
 public:
  Writer(int output, int error) : descriptors_{output, error} {}

  void add(ConsoleStream stream, std::string_view bytes) {
    const std::lock_guard lock(mutex_);
    if (is_closed_[index(stream)]) return;
    if (waiting_.empty() || waiting_.back().first != stream) waiting_.emplace_back(stream, "");
    waiting_.back().second += bytes;
    size_ += bytes.size();
    changed_.notify_all();
  }
  bool is_full() {
    const std::lock_guard lock(mutex_);
    return size_ >= kFull;
  }
  bool flush(std::chrono::milliseconds limit) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, limit, [&] { return size_ == 0; });
  }
  void stop() {
    const std::lock_guard lock(mutex_);
    stops_ = true;
    changed_.notify_all();
  }
  void run() {
    // It may be held in a write for longer than the launcher ignores broken pipes.
    sigset_t broken_pipe;
    ::sigemptyset(&broken_pipe);
    ::sigaddset(&broken_pipe, SIGPIPE);
    ::pthread_sigmask(SIG_BLOCK, &broken_pipe, nullptr);
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return stops_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      const auto parts = std::exchange(waiting_, {});
      lock.unlock();
      for (const auto& [stream, bytes] : parts) write_all(stream, bytes);
      lock.lock();
    }
  }

 private:
  static std::size_t index(ConsoleStream stream) { return static_cast<std::size_t>(stream); }

  void write_all(ConsoleStream stream, std::string_view bytes) {
    while (!bytes.empty()) {
      const std::size_t done = write_some(stream, bytes.substr(0, kPiece));
      bytes.remove_prefix(done);
      const std::lock_guard lock(mutex_);
      size_ -= done;
      changed_.notify_all();
    }
  }

  // How much needs to be written no more.
  std::size_t write_some(ConsoleStream stream, std::string_view bytes) {
    const int descriptor = descriptors_[index(stream)];
    {
      const std::lock_guard lock(mutex_);
      if (is_closed_[index(stream)]) return bytes.size();
    }
    pollfd ready{.fd = descriptor, .events = POLLOUT, .revents = 0};
    if (::poll(&ready, 1, kPollMilliseconds) <= 0) return 0;
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written >= 0) return static_cast<std::size_t>(written);
    if (errno == EINTR || errno == EAGAIN) return 0;
    const std::lock_guard lock(mutex_);
    is_closed_[index(stream)] = true;  // EPIPE, EIO of a terminal that is gone, a full disk
    return bytes.size();
  }

  std::array<int, 2> descriptors_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::pair<ConsoleStream, std::string>> waiting_;
  std::size_t size_ = 0;  // of what is not written yet
  std::array<bool, 2> is_closed_{};
  bool stops_ = false;
};

Console::Console(int output, int error) : writer_(std::make_shared<Writer>(output, error)) {
  // It is let go at the end: one that is stuck in a write cannot be waited for.
  std::thread([writer = writer_] { writer->run(); }).detach();
}

Console::~Console() {
  writer_->flush(kLastWait);
  writer_->stop();
}

void Console::write(ConsoleStream stream, std::string_view bytes) {
  if (bytes.empty()) return;
  writer_->add(stream, bytes);
  if (stream == ConsoleStream::kError) error_at_line_start_ = bytes.back() == '\n';
}

void Console::line(std::string_view text) {
  std::string bytes = error_at_line_start_ ? "" : "\n";
  bytes += text;
  write(ConsoleStream::kError, bytes + "\n");
}

bool Console::is_full() const { return writer_->is_full(); }

bool Console::flush(std::chrono::milliseconds limit) { return writer_->flush(limit); }

}  // namespace phalanx::launch
