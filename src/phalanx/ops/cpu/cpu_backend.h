#pragma once
// The CPU as a backend: oneDNN for matrix products, Highway for the rest.

#include <memory>
#include <optional>
#include <string_view>

#include "phalanx/ops/backend.h"
#include "phalanx/ops/cpu/device.h"

namespace phalanx {

std::unique_ptr<Backend> make_cpu_backend(int threads, cpu::ProductPrecision products);

}  // namespace phalanx
