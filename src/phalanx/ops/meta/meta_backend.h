#pragma once
// The planning backend: computes nothing and allocates nothing. It knows the scratch sizes of the
// target machine's kernels, so that a program run on planning arenas leaves the high-water marks
// that the real run will have.

#include <memory>

#include "phalanx/ops/backend.h"

namespace phalanx {

// Plans for the machine whose sizes these are.
std::unique_ptr<Backend> make_meta_backend(std::unique_ptr<const WorkspaceSizes> target);

}  // namespace phalanx
