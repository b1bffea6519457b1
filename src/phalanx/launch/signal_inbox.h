#pragma once
// The signals of the launcher (`phalanx launch`), read from a descriptor, so that its loop can wait
// for them together with all else. interruptions.h says what they mean. (A run's own process uses
// handlers: cli/signals.h.)

#include <csignal>
#include <vector>

#include "phalanx/base/file_descriptor.h"

namespace phalanx::launch {

class SignalInbox {
 public:
  // While it lives the signals are blocked in this thread and in threads that it starts from now
  // on. A signal that the process was started to ignore (nohup) stays ignored. SystemError.
  explicit SignalInbox(const std::vector<int>& signals);
  SignalInbox(const SignalInbox&) = delete;
  SignalInbox& operator=(const SignalInbox&) = delete;
  ~SignalInbox();

  // Readable when a signal has come.
  int descriptor() const { return descriptor_.get(); }
  // The signals that have come since the last call.
  std::vector<int> take();

 private:
  FileDescriptor descriptor_;
  sigset_t before_{};
};

}  // namespace phalanx::launch
