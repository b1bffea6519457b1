#pragma once
// The products of a layer and of the logits of GPT-2 124M and of a Llama of 7B, in bf16.

#include <cstdint>

#include "phalanx/ops/cuda/check/workbench.h"
#include "phalanx/ops/device_check.h"

namespace phalanx::cuda {

// Device memory for them, operands and scratch.
std::int64_t model_product_bytes(std::int64_t divisor);

// Of each: which algorithm was chosen, the rate, and the error of some of its numbers against
// double. Every side is divided by `divisor`.
void check_model_products(Workbench& bench, std::int64_t divisor, CheckSink& sink);

}  // namespace phalanx::cuda
