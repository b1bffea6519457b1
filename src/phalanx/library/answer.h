#pragma once
// How functions of the interface answer: what work throws becomes a code and a message.

#include <functional>
#include <string>

#include "phalanx/library/phalanx.h"

struct phalanx_answer {
  int code = 0;  // an exit code of docs/exit-codes.md
  std::string text;
  std::string error;
};

namespace phalanx {

// Does the work, which returns the answer's text. Never null.
phalanx_answer* answer_of(const std::function<std::string()>& work) noexcept;

// Does the work on a thread of its own, and waits for it. Nothing that the work sets for its thread
// stays with the caller's: affinity, the mode of floating point, its team of threads. The work has
// the standard mode of floating point, whatever the caller has, and its threads get no signals of
// the process.
phalanx_answer* answer_apart(const std::function<std::string()>& work) noexcept;

}  // namespace phalanx
