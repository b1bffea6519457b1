#pragma once
// How a run can end, and who asks for it.

#include <functional>

namespace phalanx {

enum class RunEnd {
  kFinished,   // all iterations are done, or an exit condition was met
  kPreempted,  // asked by a signal or a program: the state is saved, or training had not begun
  kStopped,    // asked between steps, and there is no --save
};

// What a program returns that asks its own run to stop, without a signal.
inline constexpr int kAskedByProgram = 1 << 16;

// The number of the signal that asks the run to stop, or kAskedByProgram, or 0. Ranks ask between
// steps and between the microbatches of an evaluation; once it is not 0 it stays so.
using StopToken = std::function<int()>;

inline constexpr const char* kNothingIsLost = "training had not begun: nothing is lost";

}  // namespace phalanx
