#pragma once
// The gradient mode of the case table: backward ops against finite differences of the reference in
// double.

#include <string>

#include "phalanx/ops/cases/case.h"

namespace phalanx::ops {

// What went wrong, or an empty string: a derivative that differs from the fourth-order central
// difference by more than 1e-8 of the operand's largest derivative.
std::string compare_with_differences(const GradientCase& row);

}  // namespace phalanx::ops
