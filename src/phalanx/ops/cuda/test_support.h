#pragma once
// The functions of this folder as a backend of host tensors, on the emulated driver, for the case
// table: an op's operands are copied to device memory and back.

#include <memory>

#include "phalanx/ops/backend.h"

namespace phalanx::cuda {

// Whether the functions of this folder have the op: "norm_forward".
bool has_cuda_op(const std::string& op);

// An op that is not there yet is an InternalError.
std::unique_ptr<Backend> make_mirror_backend();

}  // namespace phalanx::cuda
