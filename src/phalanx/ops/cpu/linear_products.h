#pragma once
// The products of linear layers (ops/linear.h) as the engine of products sees them.

#include "phalanx/ops/cpu/matrix_product.h"
#include "phalanx/ops/linear.h"

namespace phalanx::cpu {

MatrixProduct product_of(const ops::LinearForward& op);
MatrixProduct product_of(const ops::LinearInputGradient& op);
MatrixProduct product_of(const ops::LinearWeightGradient& op);

// InternalError for operands that no kernel multiplies; threads must not meet them.
void expect_kernel_types(const MatrixProduct& product);

}  // namespace phalanx::cpu
