#include "phalanx/base/ready_output.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace phalanx {
namespace {

constexpr int kFirst = 3;  // after the standard streams
// A ready pipe takes this many bytes without waiting (PIPE_BUF).
constexpr std::size_t kPiece = 4096;

bool has_room(int descriptor, int milliseconds) {
  pollfd ready{.fd = descriptor, .events = POLLOUT, .revents = 0};
  return ::poll(&ready, 1, milliseconds) > 0;
}

}  // namespace

ReadyOutput::ReadyOutput(int descriptor) {
  struct stat kind {};
  if (::fstat(descriptor, &kind) == 0) {
    is_socket_ = S_ISSOCK(kind.st_mode);
    is_file_ = S_ISREG(kind.st_mode);
    if (S_ISFIFO(kind.st_mode) || S_ISCHR(kind.st_mode)) {
      const int again = ::open(fmt::format("/proc/self/fd/{}", descriptor).c_str(),
                               O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
      if (again >= 0) {
        descriptor_ = ::fcntl(again, F_DUPFD_CLOEXEC, kFirst);
        ::close(again);
      }
      never_waits_ = descriptor_ >= 0;
    }
  }
  if (descriptor_ < 0) descriptor_ = ::fcntl(descriptor, F_DUPFD_CLOEXEC, kFirst);
  never_waits_ = never_waits_ || is_socket_;
}

ReadyOutput::~ReadyOutput() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

ssize_t ReadyOutput::write(std::string_view bytes) const {
  if (descriptor_ < 0) {
    errno = EBADF;
    return -1;
  }
  const bool may_wait = !never_waits_ && !is_file_;
  if (may_wait && !has_room(descriptor_, 0)) return 0;
  if (may_wait) bytes = bytes.substr(0, kPiece);
  ssize_t written = 0;
  do {
    written = is_socket_ ? ::send(descriptor_, bytes.data(), bytes.size(), MSG_DONTWAIT)
                         : ::write(descriptor_, bytes.data(), bytes.size());
  } while (written < 0 && errno == EINTR);
  return written < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) ? 0 : written;
}

void ReadyOutput::wait_for_room(int milliseconds) const { has_room(descriptor_, milliseconds); }

}  // namespace phalanx
