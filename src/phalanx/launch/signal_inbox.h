#pragma once
// Signals to the launcher, as a descriptor instead of handlers.

#include <csignal>
#include <vector>

#include "phalanx/launch/descriptor.h"

namespace phalanx::launch {

class SignalInbox {
 public:
  // Blocks them in this thread and those that it starts from now on, while it lives. One that the
  // process was started to ignore (nohup) stays ignored. SystemError.
  explicit SignalInbox(const std::vector<int>& signals);
  SignalInbox(const SignalInbox&) = delete;
  SignalInbox& operator=(const SignalInbox&) = delete;
  ~SignalInbox();

  // Readable when a signal is there.
  int descriptor() const { return descriptor_.get(); }
  // Those that have come.
  std::vector<int> take();

 private:
  Descriptor descriptor_;
  sigset_t before_{};
};

}  // namespace phalanx::launch
