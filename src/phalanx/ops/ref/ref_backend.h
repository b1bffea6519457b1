#pragma once
// The reference as a backend, so that tests can run whole layers on it.

#include <memory>

#include "phalanx/ops/backend.h"

namespace phalanx {

std::unique_ptr<Backend> make_ref_backend();

}  // namespace phalanx
