#pragma once
// Checks a program before anything runs: complete, in a possible order, and weight gradients of a
// parameter added in microbatch order (which fixes their bits, design 2.9).

#include "phalanx/pipeline/action.h"

namespace phalanx {

// Throws InternalError naming the first action that breaks a rule.
void verify(const Program& program);

}  // namespace phalanx
