#pragma once
// The reference as a backend, so that whole layers can be checked.

#include <memory>

#include "phalanx/ops/backend.h"

namespace phalanx {

std::unique_ptr<Backend> make_ref_backend();

}  // namespace phalanx
