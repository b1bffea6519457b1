#include "phalanx/launch/signal_inbox.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "phalanx/base/error.h"

namespace phalanx::launch {

SignalInbox::SignalInbox(const std::vector<int>& signals) {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signal : signals) {
    struct sigaction now {};
    ::sigaction(signal, nullptr, &now);
    if (now.sa_handler != SIG_IGN) ::sigaddset(&set, signal);
  }
  ::pthread_sigmask(SIG_BLOCK, &set, &before_);
  descriptor_ = FileDescriptor(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!descriptor_.is_open()) {
    const int error = errno;
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    throw SystemError("signals cannot be watched: {}", std::strerror(error));
  }
}

SignalInbox::~SignalInbox() {
  take();  // drops signals that came too late: unblocked, they would end the process
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

std::vector<int> SignalInbox::take() {
  std::vector<int> signals;
  signalfd_siginfo info{};
  while (::read(descriptor_.get(), &info, sizeof info) == sizeof info) {
    signals.push_back(static_cast<int>(info.ssi_signo));
  }
  return signals;
}

}  // namespace phalanx::launch
