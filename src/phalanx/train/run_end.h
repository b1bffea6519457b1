#pragma once
// How a run can end, and who asks for it.

#include <functional>

namespace phalanx {

enum class RunEnd {
  kFinished,   // all iterations are done, or an exit condition was met
  kPreempted,  // a signal came: the state is saved, or training had not begun
  kStopped,    // a signal came between steps, and there is no --save
};

// The number of the signal that asks the run to stop, or 0. Ranks ask between steps and between the
// microbatches of an evaluation; once it is not 0 it stays so.
using StopToken = std::function<int()>;

inline constexpr const char* kNothingIsLost = "training had not begun: nothing is lost";

}  // namespace phalanx
